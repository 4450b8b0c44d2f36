"""Options that messages name are options of the verbs in which the message can be seen.

A message of the library says an option of the command line only if every verb that can show it has that option, or if it
names the key of a recipe as well ("--on-error skip, in a recipe pairs.on_error"). A command that is spelled out ("isogloss
evaluate … --data hub") is checked against its own verb.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import isogloss
import isogloss_papers
from cli.verbs import options

ROOT = Path(isogloss.__file__).parent
PAPERS = Path(isogloss_papers.__file__).parent
OPTION = re.compile(r"(?<![\w(-])--[a-z][a-z-]*")
COMMAND = re.compile(r"\bisogloss ((?:corpora |index )?[a-z][a-z-]*)([^;,`\n]*)")
FOREIGN = re.compile(r"\b(?:pip|git|curl|msgfmt|xmllint)\b[^;,]*")
IN_A_RECIPE = re.compile(r"\bin a recipe\b|\bset output\.folder\b")
TRAINING = "run distill quickstart add finetune train-dual train-laser"
READING = "prepare distill evaluate score train-dual train-laser"
# Which verbs show the messages of a module, where they name options.
SHOWN_BY = {
    "runs/run_folder.py": TRAINING,
    "runs/clean.py": "clean",
    "models/cached_encoder.py": "embed",
    "evaluation/data/files.py": "evaluate",
    "evaluation/forecasting.py": "forecast",
    "evaluation/data/hub.py": "evaluate reproduce",
    "evaluation/suites.py": "evaluate",
    "evaluation/teachers.py": "evaluate",
    "training/tasks/mlm.py": "train-dual",
    "training/checkpoints.py": TRAINING,
    "mining/gold.py": "mine",
    "mining/sentences.py": "mine",
    "search/faiss_index.py": "mine",
    "mining/mine.py": "mine",
    "recipes.py": "run quickstart prepare distill add train-dual train-laser doctor reproduce",
    "corpora/reading/malformed.py": f"{READING} add",
    "corpora/preparation/workers.py": "prepare",
    "corpora/reading/sources.py": READING,
    "corpora/formats/layout.py": READING,
    "corpora/catalogue/get.py": "corpora get",
    "corpora/catalogue/entries.py": "corpora get",
    "runs/finished.py": "add",
    "runs/adding.py": "add",
    "runs/gathering.py": f"{READING} add",
    "cli/screens/mined.py": "mine score",
    "corpora/store.py": "prepare",
    "index/building/build.py": "index build",
    "index/building/file_writer.py": "index build",
    "index/building/search_server_writer.py": "index build",
    "config/exporting.py": "export",
    "exporting/budget/megabytes.py": "export",
    "exporting/budget/forms.py": "export",
    "index/build_record.py": "index build",
    "runs/forecast.py": "forecast",
    "runs/purposes.py": "init",
    "exporting/budget/result.py": "export",
    "exporting/budget/search.py": "export",
    "exporting/openvino.py": "export",
    "exporting/static.py": "export",
    "models/hub.py": "export",
    "report/eval_results.py": "export",
    "exporting/export.py": "export",
    "exporting/graph_folder.py": "export",
    "exporting/output.py": "export",
    "cli/options.py": "",
    "cli/short_commands.py": "",  # four verbs
    "cli/app.py": "",
    "cli/corpora/group.py": "corpora list",
    "cli/index/group.py": "index search",
    "cli/screens/outcome.py": "",
}
# Verbs that read the same files by a recipe need the recipe's key beside the option.
WITH_A_RECIPE = {
    "corpora/reading/malformed.py",
    "corpora/preparation/workers.py",
    "corpora/reading/sources.py",
    "corpora/formats/layout.py",
}
WITH_A_RECIPE |= {"runs/gathering.py"}


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, those with braces as one, without docstrings and help."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            skipped.add(id(node.body[0].value))  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Option", "Argument"):
            skipped |= {id(one) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(one) for one in ast.walk(node)}
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


FOLDERS = {"papers/": "reproduce", "serve/": "serve", "index/checking/": "index check"}  # shown by one verb


def verb_of(place: str) -> str:
    """The verbs that show a module's messages."""
    if place in SHOWN_BY:
        return SHOWN_BY[place]
    for folder, verb in FOLDERS.items():
        if place.startswith(folder):
            return verb
    name = place.removeprefix("cli/").removesuffix(".py").replace("_", "-").replace("/", " ")
    assert place.startswith("cli/") and name in options(), f"{place} names options: say in SHOWN_BY which verbs show them"
    return name


def wrong(place: str, text: str, known: dict[str, set[str]]) -> Iterator[str]:
    """What a message names and a verb that shows it does not have."""
    for verb, rest in COMMAND.findall(text):
        if verb in known:
            yield from (f"isogloss {verb} has no {one}" for one in OPTION.findall(rest) if one not in known[verb])
    left = FOREIGN.sub("", COMMAND.sub(lambda found: "" if found[1] in known else found[0], text))
    named = OPTION.findall(left)
    if not named:
        return
    if place in WITH_A_RECIPE and not IN_A_RECIPE.search(text):
        yield f"{place}: {text!r} says nothing to those who wrote a recipe"
    for verb in re.findall(r"(?:corpora |index )?\S+", verb_of(place)):
        missing = [one for one in named if one not in known[verb]]
        if missing and not IN_A_RECIPE.search(text):
            yield f"{place}: isogloss {verb} has no {', '.join(missing)}: {text!r}"


def test_messages_name_options_that_exist() -> None:
    known = options()
    places = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
    places |= {f"papers/{path.name}": path for path in PAPERS.glob("*.py")}
    found = [
        problem
        for place, path in places.items()
        if not place.startswith("report/") and place != "papers/pictures.py"  # var(--ink)
        for text in texts(path)
        if "--" in text
        for problem in wrong(place, text, known)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("place", "text", "problem"),
    [
        ("mining/gold.py", "set --ids, or --nonsense", "isogloss mine has no --nonsense"),
        ("corpora/reading/sources.py", "leave --language out", "says nothing to those who wrote a recipe"),
        ("corpora/store.py", "make one: isogloss prepare FILES --outer FOLDER", "isogloss prepare has no --outer"),
    ],
)
def test_what_does_not_exist_is_found(place: str, text: str, problem: str) -> None:
    assert any(problem in one for one in wrong(place, text, options()))
