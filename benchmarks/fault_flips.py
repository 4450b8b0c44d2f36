"""One flipped bit in one kept file, or a file that was cut off, again and again: nothing else may come out without a word.

A *world* is a folder that some work left (stopped half-way, or finished) and what a user does with it next. A trial copies the
folder, flips a random bit in a random file of it or cuts the file off (each fifth trial), goes on, and compares what comes out
with what an undamaged folder gives: the same, refused with one sentence, or wrong. `faults.py` runs this and writes the result
file.
"""

import logging
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isogloss import recipes
from isogloss.config.mining import MiningSettings
from isogloss.corpora.prepare import prepare
from isogloss.corpora.store import open_store
from isogloss.errors import IsoglossError
from isogloss.evaluation.space import LanguageMeans, read_means
from isogloss.mining.mine import mine
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder, load
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.pipeline import run
from isogloss.runs.presets import dual_recipe, finetune_recipe, laser_recipe
from isogloss.storage import weights_hash
from isogloss.types import FloatArray

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # where the tiny models are made

from additions import write_pairs
from judged import write_judged
from tiny import OFTEN, PAIRS, save_tiny_model, tiny_recipe

SLOW, CHEAPER = (
    ("run", "finetune", "train", "serve", "export --budget"),
    4,
)  # worlds whose trials take a second or more, and how many more others get
CUTS = 5  # of so many trials one cuts a file off
UNREAD = (".lock", "settings.json", "metrics.jsonl", "README.md")  # locks, logs, text for people: no result depends on them
TEXTS = [pair.source for pair in PAIRS] + [pair.target for pair in PAIRS]


Work = Callable[..., object]  # of a folder and a listener


@dataclass(frozen=True)
class World:
    """What there is before the damage, and what is done after it; `outcome` is compared by ==."""

    name: str
    make: "Work"
    go_on: "Work"


class Near:
    """Vectors of which some may have been computed again, in other batches: equal up to the rounding of half precision."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, vectors: FloatArray) -> None:
        self.vectors = vectors

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Near) or self.vectors.shape != other.vectors.shape:
            return False
        return bool(np.allclose(self.vectors, other.vectors, rtol=0, atol=2e-3))


class Stopped(BaseException):
    """Ends work in the middle, as a kill does."""


def stopped(work: Work, stage: str, after: int) -> Work:
    """The same work, which ends where `stage` has reported `after` times."""

    def begin(folder: Path, listen: OnProgress = silent) -> object:
        heard = 0

        def count(step: Step) -> None:
            nonlocal heard
            heard += step.stage == stage
            if heard == after:
                raise Stopped

        try:
            work(folder, count)
        except Stopped:
            return None
        raise AssertionError(f"{stage} was over before it could be stopped")

    return begin


class Worlds:
    """The folders, over tiny real models in `place`: what leaves them, and what is done with them next."""

    def __init__(self, place: Path) -> None:
        self.place, self.models, self.tsv = place, place / "models", write_pairs(place / "pairs.tsv")
        save_tiny_model(self.models / "teacher", width=16, layers=1, seed=1, normalize=True)
        save_tiny_model(self.models / "student", width=24, layers=4, seed=2, normalize=False)
        write_judged(place)
        for language, texts in (("en", [one.source for one in PAIRS]), ("de", [one.target for one in PAIRS])):
            (place / f"{language}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        self.teacher = load(str(self.models / "teacher"), device="cpu")

    def all(self) -> list[World]:
        """Each of them."""
        return [
            World("run, stopped while training", stopped(self.run, "distill", 7), self.run),
            World("run, stopped at the teacher", stopped(self.run, "teacher", 1), self.run),
            World("run, finished, run again", self.run, self.run),
            World("finetune, stopped", stopped(self.finetune, "sts", 4), self.finetune),
            World("train-laser, stopped", stopped(self.laser, "translate", 4), self.laser),
            World("train-dual, stopped", stopped(self.dual, "rank", 3), self.dual),
            World("mine, again", self.mine, self.mine),
            World("vector cache", self.fill_cache, self.read_cache),
            World("store, read", self.prepare, lambda folder, listen=silent: list(open_store(folder / "store").bitext())),
            World("store, prepared again", self.prepare, self.prepare),
            World("model, loaded", self.bridge, lambda folder, listen=silent: self.vectors(folder)),
            World("language means", self.write_means, self.read_means),
        ]

    def run(self, folder: Path, listen: OnProgress = silent) -> object:
        """A whole run."""
        result = run(tiny_recipe(self.models, self.tsv, folder, OFTEN), listen)
        return weights_hash(result.model), result.reports

    def finetune(self, folder: Path, listen: OnProgress = silent) -> object:
        """NLI, then STS with labels of a cross-encoder."""
        nli, sts, dev = ([str(self.place / f"{name}.tsv")] for name in ("nli", "sts", "dev"))
        training = {"batch_pairs": 8, "checkpoint_seconds": 0.0}
        more: dict[str, Any] = {"student": {"max_tokens": 32}, "device": "cpu", "training": training}
        data = finetune_recipe(str(self.models / "student"), folder, nli, sts, dev, None, 1, {"neighbors": 2}, **more)
        return weights_hash(run(recipes.parse(data), listen).model)

    def laser(self, folder: Path, listen: OnProgress = silent) -> object:
        """An encoder that learns by translating, a few steps of it."""
        student = {"vocabulary": 120, "embedding": 8, "hidden": 8, "lstm_layers": 1, "max_tokens": 40}
        training = {"batch_pairs": 20, "steps": 8, "dev_pairs": 0, "checkpoint_seconds": 0.0}
        stage = {"decoder": 16, "language": 4, "targets": ["en", "de"]}
        more: dict[str, Any] = {"student": student, "training": training, "device": "cpu", "threads": 1}
        return weights_hash(run(recipes.parse(laser_recipe([str(self.tsv)], folder, "paper", stage, **more)), listen).model)

    def dual(self, folder: Path, listen: OnProgress = silent) -> object:
        """Translation ranking in two rounds, the second with mined negatives."""
        training = {"epochs": 1, "batch_pairs": 16, "dev_pairs": 0, "checkpoint_seconds": 0.0}
        more: dict[str, Any] = {"student": {"max_tokens": 32}, "device": "cpu", "training": training}
        data = dual_recipe([str(self.tsv)], folder, str(self.models / "student"), losses={"hard_negatives": 2}, **more)
        result = run(recipes.parse(data), listen)
        return weights_hash(result.model), result.reports

    def mine(self, folder: Path, listen: OnProgress = silent) -> object:
        """Mining with all that it keeps."""
        settings = MiningSettings(threshold="0", device="cpu", folder=folder, min_language=0, cache=folder / "cache")
        found = mine(self.teacher, self.place / "en.txt", self.place / "de.txt", settings, listen)
        return found.pairs.to_pylist() if hasattr(found.pairs, "to_pylist") else repr(found.pairs)

    def fill_cache(self, folder: Path, listen: OnProgress = silent) -> object:
        """Four shards."""
        for start in range(0, len(TEXTS), 40):
            CachedEncoder(self.teacher, folder).encode(TEXTS[start : start + 40], listen)
        return None

    def read_cache(self, folder: Path, listen: OnProgress = silent) -> object:
        """All of them again."""
        return Near(CachedEncoder(self.teacher, folder).encode(TEXTS, listen))

    def prepare(self, folder: Path, listen: OnProgress = silent) -> object:
        """A store, by the same command each time."""
        return prepare(self.tsv, out=folder / "store").manifest, list(open_store(folder / "store").bitext())

    def bridge(self, folder: Path, listen: OnProgress = silent) -> object:
        """A model, without training."""
        return run(tiny_recipe(self.models, self.tsv, folder, "training.epochs=0"), listen)

    def vectors(self, folder: Path) -> object:
        """Vectors of a finished run's model."""
        return load(str(folder), device="cpu").encode(TEXTS[:8]).tobytes()

    def write_means(self, folder: Path, listen: OnProgress = silent) -> object:
        """Means of two languages."""
        return LanguageMeans({name: np.full(16, len(name), dtype=np.float32) for name in ("de", "zh")}, "f").write(folder)

    def read_means(self, folder: Path, listen: OnProgress = silent) -> object:
        """The same again."""
        return {name: mean.tobytes() for name, mean in read_means(folder).means.items()}


def damage(folder: Path, chance: random.Random, cut: bool = False) -> Path:
    """Flip one bit of one file, or cut it off; the name of the file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size and path.name not in UNREAD)
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    path.write_bytes(data[:place] if cut else data)
    return path.relative_to(folder)


class Flips:
    """Trials over all worlds in turn; those that take a second or more have fewer turns."""

    def __init__(self, place: Path, more: Callable[[Path, Encoder], list[World]] | None = None) -> None:
        logging.disable(logging.WARNING)  # each trial warns of its damage
        torch.set_num_threads(1)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        worlds = Worlds(place)
        self.place, self.worlds = place, [*worlds.all(), *(more(place, worlds.teacher) if more else [])]
        self._made: dict[str, tuple[Path, object]] = {}
        quick = [world for world in self.worlds if not world.name.startswith(SLOW)]
        self.turns = self.worlds + quick * (CHEAPER - 1)

    def trial(self, number: int, seed: int) -> dict[str, Any]:
        """Flip a bit and go on: what was hit, and how it ended."""
        world = self.turns[number % len(self.turns)]
        whole, expected = self._undamaged(world)
        told = {"kind": "flip", "verb": world.name, "seed": seed, "wrong": ""}
        with tempfile.TemporaryDirectory(prefix="isogloss-flip-") as temporary:
            folder = Path(temporary) / "world"
            shutil.copytree(whole, folder)
            cut = number % CUTS == CUTS - 1
            hit = damage(folder, random.Random(seed), cut)
            told |= {"file": hit.suffix or hit.name, "damage": "cut" if cut else "flip"}
            try:
                outcome = world.go_on(folder)
            except IsoglossError as error:
                return told | {"ended": "refused", "wrong": "" if error.message else "refused without a word"}
            except Exception as error:  # noqa: BLE001 - this is what we look for
                return told | {"ended": "traceback", "wrong": f"{hit}: {type(error).__name__}: {error}"}
        same = outcome == expected
        return told | {"ended": "same" if same else "other", "wrong": "" if same else f"{hit}: another result, silently"}

    def _undamaged(self, world: World) -> tuple[Path, object]:
        """The folder before the damage, and what comes out without any; made when first asked for."""
        if world.name not in self._made:
            whole, again = (self.place / f"{len(self._made)}-{name}" for name in ("whole", "again"))
            whole.mkdir()
            world.make(whole)
            shutil.copytree(whole, again)
            self._made[world.name] = whole, world.go_on(again)
        return self._made[world.name]
