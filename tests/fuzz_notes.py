"""Fuzzing of JSON and other small files that come with stores, runs, models and downloads."""

import io
import json
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np

from corpora.stores import OPTIONS, feeds, write
from fuzz_cases import changed_bytes, changed_json
from isogloss import recipes
from isogloss.cli.screens.progress import output
from isogloss.cli.screens.waterfall import show_waterfall
from isogloss.corpora.preparation.feeds import from_store
from isogloss.corpora.preparation.scored_parts import known_index
from isogloss.corpora.prepare import prepare_store
from isogloss.corpora.reading.origin import Origin, origin_of
from isogloss.corpora.store import leak_scan_of, open_store, training_data, unread
from isogloss.corpora.summary import summarize
from isogloss.evaluation import leak_report as leaks
from isogloss.evaluation.space import LanguageMeans, read_means
from isogloss.models.encoders.onnx import _modules_after_graph, _tokenizer
from isogloss.models.saving import TRAINING
from isogloss.report.corpora_page import corpora_page
from isogloss.runs.finished import combined_training, open_finished
from isogloss.shown import printable
from parallel import put


class Notes:
    """A store, a finished run, a model's folder and the notes beside downloads: each in its own JSON."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = prepare_store(
            feeds(write(folder / "a.en-de.tsv", 8), write(folder / "b.en-fr.tsv", 6, 3)), folder / "store", OPTIONS
        )
        self.manifest = json.loads((folder / "store" / "manifest.json").read_text())
        self.summary = summarize(store)
        self.indexes = {path: json.loads(path.read_text()) for path in (folder / "store" / "scored").glob("*.json")}
        self.model = folder / "run" / "model"
        self.model.mkdir(parents=True)
        self.training = training_data(self.manifest) | {"added": [{"languages": ["ko"]}]}
        scores = {"languages": {"de": {"to_source": 0.5}}, "average": {"to_source": 0.5}}
        self.run = {
            "run.json": {
                "status": "finished",
                "recipe": {"languages": ["de"], "teacher": {"model": "t"}},
                "hashes": {"pairs": "p", "teacher": "t"},
                "stores": [{"folder": "pairs", "hash": "p", "languages": ["de"]}],
            },
            "results.json": {"store": "pairs", "stages": {"untouched": scores, "trained": scores}},
        }
        self.modules = {
            "modules.json": [
                {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
            ],
            "1_Pooling/config.json": {
                "word_embedding_dimension": 8,
                "pooling_mode_mean_tokens": True,
                "pooling_mode_cls_token": False,
            },
            "tokenizer_config.json": {"pad_token": {"content": "[PAD]"}, "model_max_length": 128},
            "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False},
            "tokenizer.json": json.loads(_small_tokenizer()),
        }
        for name, value in (self.run | {f"model/{name}": value for name, value in self.modules.items()}).items():
            put(folder / "run" / name, json.dumps(value))
        self.means = io.BytesIO()
        np.savez(self.means, fingerprint=np.array("f"), de=np.ones(4, np.float32), fr=np.zeros(4, np.float32))
        self.origin = asdict(Origin(corpus="X", version="v1", license="CC0", url="https://x/y", sha256="0" * 64))
        self.origin |= {"etag": '"e"', "modified": "m", "size": 3}

    def manifests(self, random: Random) -> None:
        path = self.folder / "store" / "manifest.json"
        path.write_bytes(changed_json(random, self.manifest))
        store = open_store(path.parent)
        leak_scan_of(store.manifest), unread(store.manifest), from_store(store), store.languages, len(store)
        if random.random() < 0.5:
            corpora_page(store, self.summary)
            combined_training(self.training, training_data(store.manifest))
        else:
            with redirect_stdout(io.StringIO()) as shown, mock.patch.object(output, "_file", None):
                show_waterfall(store, {})
            assert printable(shown.getvalue(), layout=True) == shown.getvalue()

    def scored_indexes(self, random: Random) -> None:
        path, value = random.choice(list(self.indexes.items()))
        path.write_bytes(changed_json(random, value))
        one = mock.Mock(part=lambda language: f"x.{language}", key=path.stem)
        known_index(path, one, value["scored"])

    def finished_runs(self, random: Random) -> None:
        name, value = random.choice(list(self.run.items()))
        path = put(self.folder / "run" / name, changed_json(random, value))
        try:
            found = open_finished(str(path.parent))
            assert all(isinstance(one, str) for one in found.languages) and isinstance(found.recipe, dict)
            recipes.parse({"languages": list(found.languages)})
        finally:
            put(path, json.dumps(value))

    def training_notes(self, random: Random) -> None:
        put(self.model / TRAINING, changed_json(random, self.training))
        found = leaks.scan_of(self.model)
        assert found is None or all(isinstance(name, str) for name in (*found.names, *found.corpora))
        before = open_finished(str(self.folder / "run")).training
        combined_training(before, self.training)
        assert isinstance((before or {}).get("added", []), list)

    def model_folders(self, random: Random) -> None:
        name, value = random.choice(list(self.modules.items()))
        path = put(self.model / name, changed_json(random, value))
        try:
            _modules_after_graph(self.model)
            _tokenizer(self.model)
        finally:
            put(path, json.dumps(value))

    def downloads(self, random: Random) -> None:
        target = self.folder / "x.zip"
        put(target.with_name("x.zip.origin.json"), changed_json(random, self.origin))
        found = origin_of(target)
        assert found is None or all(isinstance(value, str | bool | int | None) for value in asdict(found).values())

    def mean_files(self, random: Random) -> None:
        means = read_means(put(self.folder / "means.npz", changed_bytes(random, self.means.getvalue())))
        assert isinstance(means, LanguageMeans)


def _small_tokenizer() -> str:
    from tokenizers import Tokenizer, models

    return str(Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2}, unk_token="[UNK]")).to_str())
