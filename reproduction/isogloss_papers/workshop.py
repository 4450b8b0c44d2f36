"""Makes systems, each once: first the systems that one is made from; finished ones are reused.

    OUT/systems/NAME/KEY    a system: the folder of its run, and made.json once it is finished
    OUT/pairs/KEY           its training pairs, shared by all systems that train on the same pairs
    OUT/judged/KEY.tsv      its labelled pairs

A key is a hash of the recipe (without the sentences on what differs), of the systems it is made from, and of the names and
sizes of its files. Interrupted work continues.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.amounts import amount
from isogloss.errors import DataError, IsoglossError, ModelError, RecipeError
from isogloss.progress import OnProgress, Step, silent
from isogloss.shapes import as_type
from isogloss.storage import WORK, canonical_json, content_hash, make_folder, read_json, write_json
from isogloss_papers.recipe import FOLDER, Making, SystemRecipe, check_settings, load_system, own_settings, with_overrides
from isogloss_papers.text import guarded_judged, listing, prepared_pairs, refuse_missing
from isogloss_papers.verbs import MAKERS, Inputs

if TYPE_CHECKING:
    from isogloss.models.encoder import Encoder

MADE, SYSTEMS, PAIRS, JUDGED = "made.json", "systems", "pairs", "judged"
KEY = 12  # letters of a hash that name a folder
TEXT = ("nli", "sts", "sts_dev", "qa")


class CannotBeMade(IsoglossError):
    """A system that cannot be made here, with the reason as one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A system to make: its recipe at a scale, its language, and the systems it is made from."""

    recipe: SystemRecipe
    making: Making
    language: str
    key: str
    others: "dict[str, Resolved]"

    @property
    def name(self) -> str:
        """Its name, with the language if there is one system per language."""
        return f"{self.recipe.name}-{self.language}" if self.language else self.recipe.name

    @property
    def backbone(self) -> str:
        """The model that it starts from, followed down to one that is not made here."""
        how, start = self.making.how, self.others.get("model")
        body = self.making.model if start is None else start.backbone
        if how == "laser":
            return "BiLSTM from random weights"
        if how == "random":
            return f"{body}, random weights"
        if self.making.settings.get("student", {}).get("kind") == "teacher-body" and "teacher" in self.others:
            return f"{self.others['teacher'].backbone}, with the vocabulary of {body}"
        layers = self.making.settings.get("student", {}).get("layers", 0)
        return f"{body}, {amount(layers, 'layer')}" if layers else body

    @property
    def data(self) -> str:
        """Its training data, in a few words."""
        making = self.making
        names = [*(name.rsplit("/", 1)[-1] for name in making.pairs), *making.corpora]
        judged = [Path(name).name.split(".")[0] for kind in TEXT if kind != "sts_dev" for name in getattr(making, kind)]
        languages = self.language or ", ".join(making.languages)
        parts = [f"{', '.join(names)} ({languages})"] if names else []
        return "; ".join([*parts, *([", ".join(judged)] if judged else [])])

    @property
    def differs(self) -> tuple[str, ...]:
        """How it differs from the paper's, and how the systems it is made from differ, without repetitions."""
        own = list(self.making.differs)
        for other in self.others.values():
            for sentence in other.differs:
                named = sentence if other.recipe.title in sentence else f"{other.recipe.title}: {sentence}"
                own += [named] if sentence not in own and named not in own else []
        return tuple(own)

    def walk(self) -> "Iterator[Resolved]":
        """The systems that it is made from, in the order in which they are made, then itself."""
        for other in self.others.values():
            yield from other.walk()
        yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A finished system: how to open it, and facts about its training."""

    name: str
    key: str
    model: str
    prompt: str = ""
    mean: bool = False  # opened as an encoder with mean pooling
    pairs: int | None = None
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    def open(self, device: str = "auto") -> "Encoder":
        """Its encoder."""
        if not self.mean:
            from isogloss.models.encoders.open import open_encoder

            return open_encoder(self.model, device, self.prompt)
        from isogloss.models.student import Student
        from isogloss.runs.models import set_pooling

        student = Student.from_pretrained(self.model, self.prompt, device=device)
        set_pooling(student, "mean")
        return student


@dataclass(slots=True, kw_only=True)
class Workshop:
    """Makes systems at one scale, from the text of one folder, in another."""

    scale: str
    data: Path
    out: Path
    models: Path | None = None  # a folder whose subfolders stand for models of their name
    device: str = "auto"
    overrides: tuple[str, ...] = ()
    recipes: Path = FOLDER
    on_progress: OnProgress = silent
    _resolved: dict[tuple[str, str], Resolved] = field(default_factory=dict)
    _failed: dict[str, IsoglossError] = field(default_factory=dict)

    # ── what is needed ──────────────────────────────────────────────────────────────────────────────────────────────────

    def resolve(self, name: str, language: str = "", above: tuple[str, ...] = ()) -> Resolved:
        """A system and the systems it is made from, with their keys; makes nothing."""
        if (name, language) in self._resolved:
            return self._resolved[name, language]
        if name in above:
            raise RecipeError(f"{' ← '.join([*above, name])}: a system cannot be made from itself", hint="see its recipe")
        recipe = load_system(name, self.recipes)
        making = with_overrides(recipe.at(self.scale), self.overrides)
        check_settings(making, f"{name}.toml [{self.scale}]")
        others = {part: self.resolve(other, above=(*above, name)) for part, other in making.others().items()}
        found = Resolved(
            recipe=recipe, making=making, language=language, key=self._key(making, language, others), others=others
        )
        self._resolved[name, language] = found
        return found

    def languages_of(self, name: str) -> tuple[str, ...]:
        """The languages of a system that is made once per language; otherwise one empty name."""
        return load_system(name, self.recipes).at(self.scale).each or ("",)

    def _key(self, making: Making, language: str, others: dict[str, Resolved]) -> str:
        plain = asdict(replace(making, differs=(), why=""))
        if language:
            plain |= {"languages": [language], "each": []}
        for part in others:  # the same system under another name is the same
            plain[part] = ""
        files = listing([name for kind in ("pairs", *TEXT) for name in getattr(making, kind)], self.data)
        weights = [self._weights(name) for name in (making.model, making.teacher)]
        parts = [f"{part}={one.key}" for part, one in sorted(others.items())]
        return content_hash(canonical_json(plain), canonical_json([files, weights]), *parts)

    def _weights(self, name: str) -> list[tuple[str, int]]:
        """Names and sizes of the weights of a model that is a folder here."""
        place = Path(self.model_called(name)) if name else Path()
        files = sorted(place.rglob("*.safetensors")) if name and place.is_dir() else []
        return [(str(path.relative_to(place)), path.stat().st_size) for path in files]

    def model_called(self, name: str) -> str:
        """A model by its name: its subfolder of --models if there is one, else the name itself."""
        place = self.models / name if self.models is not None and name else None
        return str(place) if place is not None and place.is_dir() else name

    # ── making ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def make(self, system: Resolved) -> Made:
        """Make a system, after the systems it is made from; if one cannot be made, raise the reason, also later."""
        if system.making.how == "published":
            raise CannotBeMade(system.making.why, hint="only the paper's numbers are shown")
        if system.key in self._failed:
            raise self._failed[system.key]
        try:
            return self._make(system)
        except (ModelError, DataError, CannotBeMade) as error:
            self._failed[system.key] = error
            raise

    def _make(self, system: Resolved) -> Made:
        making = system.making
        made = {part: self.make(other) for part, other in system.others.items()}
        model = made["model"].model if "model" in made else self.model_called(making.model)
        if making.how in ("load", "mean"):
            return Made(name=system.name, key=system.key, model=model, prompt=making.prompt, mean=making.how == "mean")
        folder = self._folder(system)
        if (folder / MADE).is_file():
            return _made_before(folder)
        teacher = made["teacher"].model if "teacher" in made else self.model_called(making.teacher)
        began = time.monotonic()
        make_folder(folder)
        self.on_progress(Step(f"making {system.name}", 0, 1, "systems"))
        inputs = self._inputs(system, model, teacher, folder)
        facts = MAKERS[making.how](replace(making, settings=own_settings(making)), inputs, self.on_progress)
        result = Made(
            name=system.name,
            key=system.key,
            model=str(folder / "model"),
            pairs=facts.pop("pairs", None),
            seconds=round(time.monotonic() - began, 1),
            facts=facts,
        )
        write_json(folder / MADE, asdict(result))
        shutil.rmtree(folder / WORK, ignore_errors=True)  # over a gigabyte per system, needed only to continue
        self.on_progress(Step(f"making {system.name}", 1, 1, "systems"))
        return result

    def is_made(self, system: Resolved) -> bool:
        """Whether it and the systems it is made from are finished or need no training."""
        needed = (one for one in system.walk() if one.making.how not in ("load", "mean", "published"))
        return all((self._folder(one) / MADE).is_file() for one in needed)

    def _folder(self, system: Resolved) -> Path:
        return self.out / SYSTEMS / system.name / system.key[:KEY]

    def gather(self, system: Resolved) -> dict[str, Any]:
        """Prepare the training data of a system: its store of pairs and its files of labelled pairs."""
        making = system.making
        refuse_missing([name for kind in ("pairs", *TEXT) for name in getattr(making, kind)], self.data)
        store = ""
        if making.has_pairs:
            place = self.out / PAIRS / self._pairs_key(system)[:KEY]
            store = str(prepared_pairs(making, system.language, self.data, place, self.on_progress).folder)
        judged = {kind: self._judged(making, kind) for kind in ("nli", "sts", "sts_dev")}
        return {"store": store, **judged, "qa": tuple(str(self.data / name) for name in making.qa)}

    def _inputs(self, system: Resolved, model: str, teacher: str, folder: Path) -> Inputs:
        return Inputs(
            model=model,
            teacher=teacher,
            **self.gather(system),
            out=folder,
            device=self.device,
            model_called=self.model_called,
        )

    def _pairs_key(self, system: Resolved) -> str:
        making = system.making
        languages = [system.language] if system.language else list(making.languages)
        settings = {name: making.settings.get(name, {}) for name in ("pairs", "cleaning", "leaks")}
        files = listing([*making.pairs, *making.guard], self.data)
        return content_hash(
            canonical_json([making.pairs, making.corpora, languages, making.first, making.guard, settings, files])
        )

    def _judged(self, making: Making, kind: str) -> tuple[str, ...]:
        names = getattr(making, kind)
        if not names:
            return ()
        files = listing([*names, *making.guard], self.data)
        key = content_hash(canonical_json([kind, names, making.guard, files]))[:KEY]
        out = self.out / JUDGED / f"{kind}-{key}.tsv"
        if not out.is_file():
            guarded_judged(names, "nli" if kind == "nli" else "sts", making.guard, self.data, out)
        return (str(out),)


def _made_before(folder: Path) -> Made:
    try:
        known = as_type(read_json(folder / MADE), Made)
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / MADE}: cannot be used ({error})", hint="remove it, and the system is made again") from error
    return replace(known, model=str(folder / "model"))
