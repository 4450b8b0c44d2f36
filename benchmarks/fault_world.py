"""What the fault benchmarks share: small real models and text, every verb as a command, and what its result is known by.

Commands run in processes forked from one that has loaded the libraries (tests/killed.py), with the real entry point of the
command line. Only its progress bars are replaced, by one that counts trained steps in a file, which outlives a kill -9.
"""

import io
import os
import random
import signal
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


from additions import LEARNING, write_pairs  # noqa: E402
from corpora.catalogue.service import Service  # noqa: E402
from isogloss import recipes  # noqa: E402
from isogloss.cli.app import main  # noqa: E402
from isogloss.cli.screens import progress as screen  # noqa: E402
from isogloss.errors import IsoglossError  # noqa: E402
from isogloss.progress import Step  # noqa: E402
from isogloss.storage import content_hash, file_hash, read_json, weights_hash  # noqa: E402
from isogloss.training import trainer as loop  # noqa: E402
from judged import write_judged  # noqa: E402
from killed import ended, started  # noqa: E402
from tiny import OFTEN, PAIRS, save_tiny_model, tiny_recipe  # noqa: E402

Digest = Callable[[Path], str]
Fault = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its command for an output place, how its result is known, and whether it trains.

    `before` makes what is there already and is replaced; `says_unfinished`: whether what is there says that it is not whole.
    """

    command: Callable[[Path], str]
    digest: Digest
    trains: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    before: Callable[[Path], object] | None = None
    says_unfinished: Callable[[Path], bool] | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: its exit code (negative: by a signal), what it wrote to standard error, and trained steps."""

    code: int
    errors: str
    steps: int

    @property
    def traceback(self) -> bool:
        """Whether it ended in a traceback."""
        return "Traceback (most recent call last)" in self.errors


def no_fault() -> None:
    """Let it run."""


def run_verb(arguments: list[str], environment: Mapping[str, str], folder: Path, fault: Fault) -> None:
    """In the child: the command line with its output in files, and a fault that is put in place just before."""
    os.environ.update(environment)
    tempfile.tempdir = None  # to be read from the environment again
    os.fsync = lambda fd: None  # nobody pulls the plug here
    steps = (folder / "steps").open("ab", buffering=0)

    def count(step: Step) -> None:
        if step.values.get("step"):
            steps.write(b".")

    screen.progress = lambda: nullcontext(count)  # type: ignore[assignment, return-value]
    screen.say = _said
    loop.LOG_EVERY_STEPS = 1  # or only every tenth would be heard of
    out, errors = (folder / "out").open("wb", buffering=0), (folder / "errors").open("wb", buffering=0)
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(errors, encoding="utf-8", write_through=True)
    fault()
    try:
        main(arguments)
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 - what the interpreter would show
        traceback.print_exc()
        sys.exit(1)


def _said(text: str) -> None:
    """What a command says; the service is told to stop when it is ready."""
    print(text, file=sys.stderr, flush=True)
    if text.startswith("serving ") or "\nserving " in text:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def running(verb: Verb, out: Path, scratch: Path, fault: Fault = no_fault) -> Any:  # noqa: ANN401
    """A process that runs a verb, and a function that waits for its end."""
    scratch.mkdir(parents=True, exist_ok=True)
    for name in ("steps", "out", "errors"):
        (scratch / name).write_bytes(b"")
    (scratch.parent / "tmp").mkdir(exist_ok=True)
    environment = {"ISOGLOSS_CACHE": str(out.parent / "cache"), "TMPDIR": str(scratch.parent / "tmp"), **verb.environment}
    process = started(run_verb, verb.command(out).split(), environment, scratch, fault)

    def wait() -> Ended:
        code = ended(process)
        errors = (scratch / "errors").read_text(encoding="utf-8", errors="replace")
        return Ended(code, errors, (scratch / "steps").stat().st_size)

    yield process, wait


def run_to_end(verb: Verb, out: Path, scratch: Path, fault: Fault = no_fault) -> Ended:
    """Run a verb until it ends by itself."""
    with running(verb, out, scratch, fault) as (_, wait):
        done: Ended = wait()
        return done


def leftovers(folder: Path) -> list[str]:
    """Temporary files that should not be there any more."""
    marked = [path for path in folder.rglob("*") if ".partial-" in path.name or path.suffix == ".unfinished"]
    return [str(path.relative_to(folder)) for path in [*marked, *folder.glob("tmp/isogloss-*")]]


def made_before(verb: Verb, out: Path) -> str:
    """Make what the verb replaces; its digest."""
    if verb.before is None:
        return ""
    verb.before(out)
    return verb.digest(out)


def mixture(verb: Verb, out: Path, known: Mapping[str, Any]) -> str:
    """What is wrong with what somebody sees between two commands: what was there before, the result, or an unfinished index."""
    if verb.before is None or (verb.says_unfinished is not None and verb.says_unfinished(out)):
        return ""
    try:
        seen = verb.digest(out)
    except IsoglossError as error:
        return f"what was there before is lost: {error.message}"
    return "" if seen in (known["before"], known["digest"]) else "neither what was there before nor the result"


def finished_wrongly(verb: Verb, out: Path, scratch: Path, known: Mapping[str, Any]) -> str:
    """Let a command finish after a fault; what is wrong with its end, its result, or with what it leaves behind."""
    done = run_to_end(verb, out, scratch)
    if done.code or done.traceback:
        return f"afterwards ended with {done.code}: {done.errors[-400:]}"
    if verb.digest(out) != known["digest"]:
        return "another result afterwards"
    places = [out.parent] if verb.before is not None else [out] if out.is_dir() else []
    left = [name for place in places for name in leftovers(place)]
    return f"left behind: {left[:3]}" if left else ""


# ── digests ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_run(out: Path) -> str:
    """The weights, and the scores of every stage."""
    stages = read_json(out / "results.json")["stages"]
    if isinstance(stages, list):  # of finetune: what it cost is not part of the result
        stages = [{key: stage[key] for key in ("name", "examples", "before", "after")} for stage in stages]
    return content_hash(weights_hash(out / "model"), repr(stages))


def of_store(out: Path) -> str:
    """The store's own hash, and its counts."""
    manifest = read_json(out / "manifest.json")
    return content_hash(str(manifest["hash"]), str(manifest["rows_in"]), str(manifest["rows_out"]))


def of_folder(out: Path) -> str:
    """Every file but notes and locks."""
    files = sorted(path for path in out.rglob("*.zip") if path.is_file())
    return content_hash(*(part for path in files for part in (path.name, file_hash(path))))


def of_output(out: Path) -> str:
    """What the last command printed."""
    (printed,) = [path for path in (out.parent / "scratch" / "out", out.parent.parent / "scratch" / "out") if path.exists()]
    return file_hash(printed)


# ── the world ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class World:
    """Models, text and a server, made once in a folder; `verbs` by name."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        if not (folder / "made").exists():
            self._make(random.Random(seed))
        self.service = Service()
        self.service.offer_on_opus("TED2020", "v1", "de-en", (folder / "moses.zip").read_bytes(), pairs=40)
        self.verbs = self._verbs()

    def close(self) -> None:
        """Stop the server."""
        self.service.close()

    def _make(self, chance: random.Random) -> None:
        folder = self.folder
        folder.mkdir(parents=True, exist_ok=True)
        save_tiny_model(folder / "teacher", width=16, layers=1, seed=1, normalize=True)
        save_tiny_model(folder / "student", width=24, layers=4, seed=2, normalize=False)
        write_pairs(folder / "pairs.tsv")
        write_pairs(folder / "german.tsv", ("de",))
        write_pairs(folder / "en-ru.tsv", ("ru",))
        write_judged(folder)
        words = sorted({word for pair in PAIRS for word in pair.source.split()})
        lines = [" ".join(chance.choices(words, k=chance.randint(3, 30))) for _ in range(12_000)]
        (folder / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for side in ("source", "target"):
            texts = dict.fromkeys(getattr(pair, side) for pair in PAIRS if pair.language == "de")
            made = [f"{text} {chance.choice(words)}" for text in texts for _ in range(20)]
            (folder / f"{side}.txt").write_text("\n".join(made) + "\n", encoding="utf-8")
        with zipfile.ZipFile(folder / "moses.zip", "w") as packed:
            for code in ("de", "en"):
                packed.writestr(f"TED2020.de-en.{code}", "".join(f"{chance.getrandbits(600):x}\n" for _ in range(60_000)))
        recipe = tiny_recipe(folder, folder / "german.tsv", folder / "base", "languages=de", "training.epochs=4", *LEARNING)
        (folder / "base.toml").write_text(recipes.dump(recipe), encoding="utf-8")
        done = run_to_end(Verb(lambda _out: f"run {folder}/base.toml", of_run), folder / "base", folder / "scratch")
        if done.code:
            raise SystemExit(done.errors)
        (folder / "made").touch()

    def _recipe(self, out: Path, *more: str) -> Path:
        path = out.parent / "recipe.toml"
        recipe = tiny_recipe(self.folder, self.folder / "pairs.tsv", out, OFTEN, f"output.cache={out.parent / 'cache'}", *more)
        path.write_text(recipes.dump(recipe), encoding="utf-8")
        return path

    def _verbs(self) -> dict[str, Verb]:
        at = self.folder
        often = f"--set {OFTEN} --set training.epochs=4"
        ranked = ("losses.ranking=0.2", "losses.hard_negatives=1", "training.dev_share=0.2", "training.epochs=6")
        laser = "--targets en,de --vocabulary 300 --embedding 16 --hidden 16 --layers 1 --decoder 32 --steps 24 --batch 16"
        judged = f"--nli {at}/nli.tsv --sts {at}/sts.tsv --sts-dev {at}/dev.tsv --batch 8"
        online = {"ISOGLOSS_OPUS_API": f"{self.service.url}/opusapi/", "NO_PROXY": "*", "ISOGLOSS_MIRROR": ""}
        models = f"--teacher {at}/teacher --student {at}/student"
        cpu, taught = "--device cpu", f"--teacher {at}/teacher"
        table = lambda out: file_hash(out.with_suffix(".tsv"))  # noqa: E731
        trained: dict[str, Callable[[Path], str]] = {
            "run": lambda out: f"run {self._recipe(out, *ranked)}",
            "distill": lambda out: f"distill {at}/pairs.tsv {models} {often} --set device=cpu --set threads=1 --out {out}",
            "add": lambda out: f"add {at}/base ru {at}/en-ru.tsv --gate off {often} --out {out}",
            "finetune": lambda out: f"finetune {at}/student {judged} --device cpu --out {out}",
            "train-laser": lambda out: (
                f"train-laser {at}/pairs.tsv {laser} --dev-pairs 0 --checkpoint-seconds 0"
                f" --device cpu --set threads=1 --out {out}"
            ),
            "train-dual": lambda out: (
                f"train-dual {at}/pairs.tsv --student {at}/student --epochs 4 --batch 16 --device cpu"
                f" --set checkpoint_seconds=0 --out {out}"
            ),
        }
        others: dict[str, tuple[Callable[[Path], str], Digest]] = {
            "prepare": (lambda out: f"prepare {at}/pairs.tsv --workers 1 --out {out}", of_store),
            "embed": (lambda out: f"embed {at}/lines.txt --model {at}/teacher --out {out}", file_hash),
            "mine": (
                lambda out: f"mine {at}/source.txt {at}/target.txt --model {at}/teacher --device cpu --out {out}.tsv",
                table,
            ),
            "score": (lambda out: f"score {at}/german.tsv --model {at}/teacher {cpu} --out {out}.tsv", table),
            "evaluate": (lambda out: f"evaluate {at}/student {at}/base --pairs {at}/pairs.tsv {taught} --json", of_output),
            "corpora get": (lambda out: f"corpora get TED2020 --lang en-de --out {out}", of_folder),
        }
        verbs = {name: Verb(command, of_run, trains=True) for name, command in trained.items()}
        return verbs | {name: Verb(*one, environment=online if "get" in name else {}) for name, one in others.items()}
