"""Scores on public test sets, written beside a model: in its card, in the card's metadata, and as `.eval_results/`.

    isogloss evaluate runs/mine --suite sts2017,tatoeba-14 --json > scores.json
    isogloss export runs/mine --scores scores.json

The hub shows the entries of `.eval_results/*.yaml` on the page of the model, and on that of a data set if it is registered as a
benchmark. Only test sets that are data sets of the hub have an entry there; the card has them all.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isogloss.checksums import SUMS, write_sums
from isogloss.errors import DataError
from isogloss.evaluation.compare import AVERAGE
from isogloss.evaluation.data.known_sets import SETS
from isogloss.models.saving import CARD
from isogloss.shapes import NOTHING, NUMBER, TEXT, Misfit, check
from isogloss.storage import make_folder, read_json, write_text

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

SCORE = {"model": TEXT, "value": NUMBER, "interval": ([NUMBER], NOTHING)}
SHAPE = {
    "models": [{"name": TEXT, "fingerprint": TEXT}],
    "tables": [{"title": TEXT, "columns": [{"name": TEXT, "measure": TEXT, "rows": (NUMBER, NOTHING), "scores": [SCORE]}]}],
}
# How titles of tables begin: the test set. The longer title comes first.
SETS_BY_TITLE = {
    "STS 2017": "sts2017",
    "STSb, translated": "stsb-multi",
    "STSb": "stsb",
    "KorSTS": "korsts",
    "Tatoeba": "tatoeba",
    "BUCC 2018": "bucc",
    "XNLI": "xnli",
    "PAWS-X": "pawsx",
    "SIB-200": "sib",
}
OTHER_TITLES = ("STSb, other translations", "STSb, English and a translation")  # begin like one above, but are not on the hub
FOLDER, FILE = ".eval_results", "isogloss.yaml"
HEADING = "## Test sets"
KNOWN_REPOSITORIES = {known.hub.repository for known in SETS.values() if known.hub is not None}


class MeasuredScore(NamedTuple):
    """One score of the model, with its test set on the hub, if it is there."""

    title: str
    part: str
    measure: str
    value: float
    interval: tuple[float, float] | None
    repository: str


def read_scores(path: Path, fingerprint: str) -> list[MeasuredScore]:
    """The scores of the model with this fingerprint, from what `isogloss evaluate --json` printed."""
    try:
        content = check(read_json(path), SHAPE)
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file", hint="isogloss evaluate MODEL --suite … --json > scores.json") from error
    except (OSError, ValueError, Misfit) as error:
        raise DataError(
            f"{path}: not the scores of a model ({error})", hint="isogloss evaluate MODEL --suite … --json > scores.json"
        ) from error
    names = [one["name"] for one in content["models"] if one["fingerprint"] == fingerprint]
    if not names:
        measured = ", ".join(one["name"] for one in content["models"])
        raise DataError(
            f"{path}: has scores of {measured}, but their weights are not those of this model", hint="evaluate this model"
        )
    return list(_scores(content, names[0]))


def _scores(content: Mapping[str, Any], model: str) -> Iterator[MeasuredScore]:
    for table in content["tables"]:
        for column in table["columns"]:
            for score in column["scores"]:
                if score["model"] == model:
                    span = score["interval"]
                    interval = (float(span[0]), float(span[1])) if span else None
                    repository = "" if column["name"] == AVERAGE else _repository(table["title"])
                    yield MeasuredScore(
                        table["title"], column["name"], column["measure"], float(score["value"]), interval, repository
                    )


def _repository(title: str) -> str:
    if title.startswith(OTHER_TITLES):
        return ""
    name = next((name for start, name in SETS_BY_TITLE.items() if title.startswith(start)), "")
    place = SETS[name].hub if name else None
    return place.repository if place is not None else ""


def add_scores(folder: Path, scores: Sequence[MeasuredScore], whose: str = "") -> None:
    """Write scores into the card of a saved model, its metadata, and `.eval_results/`; those written before are replaced.

    `whose` says if they are those of another form of the model, such as "original".
    """
    import yaml  # type: ignore[import-untyped]
    from huggingface_hub import EvalResultEntry, ModelCard, eval_result_entries_to_yaml

    on_hub = [one for one in scores if one.repository]
    entries = [EvalResultEntry(one.repository, one.part, round(100 * one.value, 2), notes=_notes(one, whose)) for one in on_hub]
    content = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    card = ModelCard.load(folder / CARD)
    others = [one for one in card.data.eval_results or [] if one.dataset_type not in KNOWN_REPOSITORIES]
    card.data.model_name = card.data.model_name or folder.name
    card.data.eval_results = [*others, *(_metadata(one, whose) for one in on_hub)]
    card.text = f"{card.text.split(HEADING)[0].rstrip()}\n\n{_section(scores, whose)}"
    make_folder(folder / FOLDER)
    write_text(folder / FOLDER / FILE, content)
    write_text(folder / CARD, str(card).rstrip() + "\n")
    if (folder / SUMS).is_file():
        write_sums(folder, but=(CARD,))


def _metadata(score: MeasuredScore, whose: str) -> "EvalResult":
    from huggingface_hub import EvalResult

    return EvalResult(
        task_type="sentence-similarity",
        dataset_type=score.repository,
        dataset_name=f"{score.title}: {score.part}" + _of(whose),
        dataset_config=score.part,
        metric_type=score.measure.lower().replace(" ", "_"),
        metric_name=score.measure,
        metric_value=round(100 * score.value, 2),
    )


def _of(whose: str) -> str:
    return f" ({whose})" if whose else ""


def _notes(score: MeasuredScore, whose: str) -> str:
    span = "" if score.interval is None else "; 95 % interval {:.1f} to {:.1f}".format(*(100 * one for one in score.interval))
    return f"{score.title}: {score.measure} × 100{_of(whose)}, measured by isogloss{span}"


def _section(scores: Sequence[MeasuredScore], whose: str) -> str:
    """The tables in Markdown, one per title."""
    lines = [HEADING + _of(whose), "", "Measured by `isogloss evaluate`, × 100, with 95 % bootstrap intervals."]
    for title in dict.fromkeys(score.title for score in scores):
        own = [score for score in scores if score.title == title]
        lines += ["", f"{title}:", "", f"| | {own[0].measure} | interval |", "|---|---|---|"]
        for one in own:
            span = "–" if one.interval is None else "{:.1f} to {:.1f}".format(*(100 * bound for bound in one.interval))
            lines.append(f"| {one.part} | {100 * one.value:.1f} | {span} |")
    return "\n".join(lines)
