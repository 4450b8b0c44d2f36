"""Fuzzing of readers: files of every format, edited before or after they are packed, and what a user writes."""

import json
import re
from pathlib import Path
from random import Random

from fuzz_cases import FILES, ODD_VALUES, a_judged_parquet, an_encrypted_zip, changed_bytes, changed_json, changed_text
from isogloss import recipes
from isogloss.config import Recipe
from isogloss.corpora.catalogue.entries import as_languages, find
from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.reading.filenames import format_of, stem_of
from isogloss.corpora.reading.labelled import read_nli, read_sts
from isogloss.corpora.reading.languages import canonical, is_known, pair_in, same_language, without_pairs, without_region
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.question_answers import read_questions
from isogloss.evaluation.data.test_sets import open_data
from isogloss.mining.sentences import read_sentences
from isogloss.shapes import parse_json
from isogloss.shown import masked
from isogloss.web import parse_url, whole_number
from parallel import PACK, rows


class Readers:
    """Files of every format, edited before or after they are packed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {name: make() for name, make in FILES.items()} | {"locked.zip": an_encrypted_zip()}
        self.judged = {
            "nli.tsv": b"entailment\tA man sleeps.\tA person sleeps.\ncontradiction\tA dog.\tA cat.\n",
            "nli.jsonl": b'{"gold_label": "neutral", "sentence1": "A dog.", "sentence2": "A big dog."}\n' * 2,
            "nli.parquet": a_judged_parquet(),
            "sts.csv": b"main,news,2012,1,3.5,One dog runs.,A dog is running.\nmain,news,2012,2,1.0,A cat.,No dog.\n",
        }
        self.asked = {
            "q.tsv": b"question\tanswer\nWhere is it?\tOver there.\n",
            "q.jsonl": b'{"question": "a", "answer": "b"}\n',
        }
        self.sets = {
            "STS2017-extended/STS.en-de.txt": b"A dog runs.\tEin Hund rennt.\t4.0\nA cat.\tEine Katze.\t2.5\n",
            "xnli/test-de.tsv": b"Ein Hund.\tEin Tier.\tentailment\nEin Hund.\tEine Katze.\tcontradiction\n",
            "sib200/deu_Latn/test.tsv": b"index_id\tcategory\ttext\n1\tsports\tEin Ball.\n2\thealth\tEin Arzt.\n",
        }

    def _put(self, random: Random, name: str, data: bytes) -> Path:
        packing = "" if name.endswith(("zip", "gz")) else random.choice(("", "", "", *PACK))
        after = packing and random.random() < 0.5
        whole = changed_bytes(random, PACK[packing](data)) if after else PACK[packing](changed_bytes(random, data))
        path = self.folder / (name + packing)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole)
        return path

    def pairs(self, name: str, random: Random) -> None:
        path = self._put(random, name, self.files[name])
        try:
            told = random.choice((("", ""), ("de", ""), ("de", "source=1,target=2,quoted")))
            found = rows(path, Faults(random.choice(("fail", "skip", "stop-after 1"))), told[0], columns=told[1])
            assert all(row["source"] and row["target"] and row["language"] for row in found)
        finally:
            path.unlink()

    def others(self, random: Random) -> None:
        """The same bytes, and those of other files, through the other readers."""
        name, data = random.choice([*self.judged.items(), *self.asked.items(), *self.files.items()])
        path = self._put(random, name, data)
        try:
            if random.random() < 0.3:
                (_,) = evaluation_sets([str(path)])
            elif name in self.asked:
                read_questions([path])
            elif name in self.judged:
                (read_sts if name.startswith("sts") else read_nli)([path])
            else:
                read_sentences(path)
        finally:
            path.unlink()

    def test_sets(self, random: Random) -> None:
        name, data = random.choice(list(self.sets.items()))
        path = self._put(random, name, data)
        opened = open_data(str(self.folder))
        try:
            if name.startswith("STS"):
                opened.rated_pairs("sts2017", "en-de")
            else:
                kind = name.partition("/")[0]
                opened.labelled({"sib200": "sib"}.get(kind, kind), "de", "test")
        finally:
            path.unlink()


class Written:
    """Recipes, overrides, language codes, addresses."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "recipe.toml"
        plain = recipes.dump(Recipe(), comments=False)
        self.recipe = plain
        self.tables = [table for table in re.split(r"\n(?=\[)", plain) if table.strip()]
        self.keys = recipes.all_keys()

    def recipes(self, random: Random) -> None:
        text = self.recipe if random.random() < 0.3 else random.choice(self.tables)
        self.path.write_text(changed_text(random, text), encoding="utf-8")
        recipes.load(self.path)

    def overrides(self, random: Random) -> None:
        odd = random.choice(ODD_VALUES)
        value = odd if isinstance(odd, str) else random.choice((json.dumps, repr))(odd)
        override = f"{random.choice(self.keys)}={value}"
        recipes.parse({}, [changed_text(random, override, 2) if random.random() < 0.6 else override])

    def languages(self, random: Random) -> None:
        code = changed_text(random, random.choice(("de", "pt_br", "zho_Hant", "en-US", "sr@latin", "de_DE.UTF-8")), 3)
        name = changed_text(random, random.choice(("news.de-en.tsv", "freedict-eng-deu.tei", "X.en-pt_br.txt.gz")), 3)
        canonical(code), without_region(code), is_known(code), same_language(code, "de"), format_of(name), stem_of(name)
        pair_in(name, "en"), without_pairs(name, "en")
        random.choice((as_languages, find))(random.choice((code, name, f"en-{code}")))

    def addresses(self, random: Random) -> None:
        good = ("https://host/v1/embeddings?api_key=SECRET", "http://[::1]:80/x?token=SECRET&b=2", "https://u:SECRET@h:1/x")
        url = random.choice(good)
        assert "SECRET" not in masked(url)
        text = changed_text(random, url, 2)
        assert masked(masked(text)) == masked(text)
        whole_number(text.rpartition("=")[2])
        parts = parse_url(text)
        assert (
            parts.scheme in ("http", "https") and parts.geturl().isascii() and parse_url(parts.geturl()).netloc == parts.netloc
        )

    def json_texts(self, random: Random) -> None:
        try:
            parse_json(changed_json(random, {"a": [1, {"b": None}], "c": "x"}))
        except ValueError:
            return
