"""The lab in small: training text and test sets in the layout of the real data, made from the sentences of `tiny`.

Everything that the recipes of recipes/papers name at the scale of the lab is there, so each of them runs as it is, with tiny
models under the names of the real ones and fewer steps (`TOY`).
"""

import gzip
from itertools import cycle, product
from pathlib import Path

from isogloss.evaluation.data.known_sets import STSB_ACROSS, TATOEBA
from made_up_sets import GERMAN, RUSSIAN, haystack, write_sets
from tiny import SUBJECTS, VERBS, save_tiny_model

LANGUAGES = ("ar", "de", "es", "fr", "it", "ja", "ka", "ko", "nl", "pl", "pt", "ru", "sw", "th", "tl", "tr", "tt", "zh")
ALONE = ("wesnoth", "dict_freedict", "dict_cldr", "dict_osm")  # sets that a system of German or Arabic learns from alone
BESIDE = ("tatoeba_pivot", "wmt_newstest", "libreoffice", "mediawiki", "ebible", "nli_mt", "tico19", "korean_news", "lafand")
MEASURED, FEW = ("ar", "de", "es"), 12  # languages with all sentences; the others have few, to save time
JUDGED, LEAKED = 14, 2  # rows of each judged file, and those before them that share a sentence with a test set
LABELS = ("entailment", "neutral", "contradiction")
SHORT = ("training.epochs=1", "training.batch_pairs=64", "training.checkpoint_seconds=9", "training.dev_pairs=0")
TOY = (
    *(
        f"{verb}.{one}"
        for verb in ("distil", "moving")
        for one in (*SHORT, "balance.pairs_per_epoch=64", "student.max_tokens=32")
    ),
    *("distil.balance.scheme=datasets", "distil.student.layers=1"),
    *(
        "finetune.training.batch_pairs=32",
        "finetune.sts_epochs=1",
        "finetune.student.max_tokens=32",
        "finetune.training.dev_checks=1",
    ),
    *(
        "laser.student.vocabulary=200",
        "laser.student.embedding=8",
        "laser.student.hidden=8",
        "laser.student.lstm_layers=1",
        "laser.stage.decoder=16",
        "laser.training.steps=3",
    ),
    *(
        "laser.training.batch_pairs=16",
        "laser.student.max_tokens=40",
        "laser.training.dev_pairs=0",
        "dual.training.batch_pairs=128",
        "dual.student.max_tokens=32",
        "dual.training.dev_pairs=0",
    ),
    *("dual.student.trim=off", "pairs.held_out=0.1", "cleaning.min_language=0.0", "cleaning.min_script=0.0", "leaks.level=off"),
)


def write_models(folder: Path) -> Path:
    """Tiny models under the names of the lab's."""
    save_tiny_model(folder / "all-MiniLM-L6-v2", width=16, layers=2, seed=1, normalize=True)
    save_tiny_model(folder / "multilingual-e5-small", width=16, layers=2, seed=2, normalize=False)
    save_tiny_model(folder / "muse", width=8, layers=1, seed=3, normalize=True)
    return folder


def write_data(folder: Path) -> Path:
    """`train` and `eval` of the lab."""
    for place, language in enumerate(LANGUAGES):
        pairs = (GERMAN if place % 2 else RUSSIAN)[: None if language in MEASURED else FEW]
        _write(folder / f"train/tatoeba/en-{language}.tsv", [f"{en}\t{other}" for en, other in pairs])
    beside = zip(BESIDE, cycle(("ar", "de", "ko")), strict=False)
    for name, language in (*product(ALONE, ("ar", "de")), *beside):
        rows = [f"{name} {en}\t{name} {other}" for en, other in (GERMAN if language == "de" else RUSSIAN)[:20]]
        _write(folder / f"train/{name}/en-{language}.tsv", rows)
    judged(folder)
    return evaluation(folder)


def judged(folder: Path) -> None:
    """NLI and STS; the first two rows of each share a sentence with a test set."""
    new = [f"{subject} {verb} and {other}" for subject in SUBJECTS for verb, other in zip(VERBS, [*VERBS][1:], strict=False)]
    leaked = [english for english, _ in GERMAN[: 2 * LEAKED]]

    def nli(kind: str) -> list[str]:
        return [f"{a}\t{b}\t{LABELS[n % 3]}" for n, (a, b) in enumerate(pairs(kind))]

    def scored(kind: str) -> list[str]:
        return [f"captions\tx\t2012\t{n}\t{n % 6}.0\t{a}\t{b}" for n, (a, b) in enumerate(pairs(kind))]

    def pairs(kind: str) -> list[tuple[str, str]]:
        texts = [*leaked, *(f"{text} {kind}" for text in new[: 2 * JUDGED])]
        return list(zip(texts[::2], texts[1::2], strict=True))

    _write(folder / "train/nli_mt/multinli15k.en.tsv", nli("mnli"))
    head = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2"
    for part in ("train", "dev"):
        _write(folder / f"eval/stsb/sts-{part}.csv", scored(part))
        _write(folder / f"eval/kor_nlu/KorSTS_sts-{part}.tsv", [head, *scored(f"kor {part}")])
    for part in ("dev", "test"):
        _write(folder / f"eval/kor_nlu/KorNLI_xnli.{part}.ko.tsv", ["sentence1\tsentence2\tgold_label", *nli(f"nli {part}")])


def evaluation(folder: Path) -> Path:
    """The test sets: those of `made_up_sets`, and the others that the papers' tables measure."""
    write_sets(folder / "eval")
    english, german = [en for en, _ in GERMAN], [de for _, de in GERMAN]
    rows = [f"{a}\t{b}\t{n % 6}.0" for n, (a, b) in enumerate(zip(english, german[1:] + german[:1], strict=True))]
    for name in STSB_ACROSS:
        _write(folder / f"eval/stsb_xling/STS.{name}.txt", rows)
    for code in TATOEBA:
        for side, place in ((code, 1), ("eng", 0)):
            _write(folder / f"eval/tatoeba_laser_v1/tatoeba.{code}-eng.{side}", [pair[place] for pair in GERMAN[:6]])
    for code in ("de", "fr"):
        haystack(folder / f"eval/mining_news/{code}-en/{code}-en", code, GERMAN)
    return folder


def _write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + ".gz").write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode(), mtime=0))
