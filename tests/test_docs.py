"""What the pages say about the command line and the code is true: links, files, imports, options, what continues."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest

from cli.verbs import options
from isogloss import recipes
from isogloss.cli.app import STARTS_AGAIN, continues
from isogloss.config.stages import TASK_DEFAULTS, AnyStage, Stage

ROOT = Path(__file__).parent.parent
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
WRITTEN = ("run.json", "results.json", "data.json", "progress.json", "model/", "work/", "pairs/")
PAGES = {
    "corpora list": "corpora",
    "corpora get": "corpora",
    "corpora show": "corpora-show",
    "index build": "index",
    "index search": "index",
    "index check": "index-check",
}


PAGES_ALL = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES_ALL, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("https:", "http:", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_the_examples_of_stages_are_recipes() -> None:
    page = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8")
    examples = [recipes.parse(tomllib.loads(block)) for block in re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL)]
    assert [recipe.name for recipe in examples] == ["run", "ham-kim", "labse", "muse", "laser", "soup"]
    rows = re.findall(r"^\| \[`([a-z]+)`\]", page, flags=re.MULTILINE)
    assert set(rows) == {args.model_fields["task"].default for args in get_args(get_args(AnyStage)[0])}
    for task, keys in re.findall(r"^\| `([a-z]+)` \| (`.*?) \|$", page, flags=re.MULTILINE):
        if task in TASK_DEFAULTS and "=" in keys:
            said = tomllib.loads("\n".join(re.findall(r"`(.*?)`", keys)))
            assert {**TASK_DEFAULTS[task], **said} == TASK_DEFAULTS[task] and len(said) in (0, len(TASK_DEFAULTS[task])), task


@pytest.mark.parametrize("stage", get_args(get_args(AnyStage)[0]), ids=lambda stage: stage.model_fields["task"].default)
def test_the_page_has_every_key_of_a_stage(stage: type[Stage]) -> None:
    page = (ROOT / "docs" / "stages.md").read_text(encoding="utf-8")
    task = stage.model_fields["task"].default
    common = re.findall(r"^## Keys of every stage$(.*?)^## ", page, flags=re.DOTALL | re.MULTILINE)[0]
    (own,) = re.findall(rf"^## (?:\w+ and )?{task}(?: and \w+)?$(.*?)^## ", page, flags=re.DOTALL | re.MULTILINE)
    keys = set(re.findall(r"^\| `([a-z_]+)` \|", common + own, flags=re.MULTILINE))
    assert set(stage.model_fields) <= keys


def test_every_page_is_in_the_index() -> None:
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", INDEX)}
    missing = [page.name for page in PAGES_ALL if page.is_relative_to(ROOT / "docs") and page not in linked]
    assert missing == ["index.md"]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(page: str) -> None:
    """`models/bridge.py` is a file under src/isogloss, or in the repository."""
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = set(re.findall(r"`([\w/.-]+(?:\.(?:py|toml|md|css|json)|/))`", text)) - {"utils.py", "helpers.py", "common.py"}
    places = (ROOT, ROOT / "src" / "isogloss", ROOT / "reproduction")
    known = {name for name in named if any((place / name).exists() for place in places)}
    new = set(re.findall(r"New file `([\w/.]+)`", text))
    outside = {name for name in named if name.startswith(("RUN/", "CACHE/"))} | set(WRITTEN)
    assert named - known - outside - new == set()


def names_in(sentence: str) -> list[str]:
    return re.findall(r"`([^`]+)`", sentence)


def test_the_architecture_page_has_the_layers_that_are_checked() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"## The import rule\n.*?```\n(.*?)```", page, flags=re.DOTALL)
    shown = [re.split(r" {4,}", line)[0] for line in block.strip().splitlines()]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(one for one in contracts if one["type"] == "layers")["layers"]
    assert shown == [layer.replace("isogloss.", "") for layer in layers]
    forbidden = next(one for one in contracts if one["type"] == "forbidden")["source_modules"]
    checked = {name for layer in layers for name in layer.split(" | ")}
    assert checked - {"isogloss.cli"} == set(forbidden), "only the command line knows typer and rich"
    parts = {path.name.removesuffix(".py") for path in (ROOT / "src" / "isogloss").iterdir() if path.suffix in ("", ".py")}
    hidden = {"__init__", "__main__", "__pycache__"}
    assert {f"isogloss.{name}" for name in parts - hidden} | {"isogloss_papers"} == checked, "every module has its layer"


def test_the_page_says_which_verbs_continue() -> None:
    (sentence,) = re.findall(r"says `stopped`\. For (.*?) the same command\s+continues", INDEX, flags=re.DOTALL)
    assert set(names_in(sentence)) == set(options()) - {*STARTS_AGAIN, "launch"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run r.toml --fresh", True),
        ("--debug run r.toml", True),
        ("launch -n 2 run r.toml", True),
        ("corpora get TED2020 --lang en-de", True),
        ("corpora show run", False),
        ("evaluate run --data prepare", False),
        ("embed x.txt --model m", True),
        ("", False),
    ],
)
def test_only_a_verb_that_continues_is_said_to(command: str, said: bool) -> None:
    assert continues(command.split()) is said


def test_the_page_says_which_verbs_have_no_json() -> None:
    (sentence,) = re.findall(r"Every verb but (.*?) has `--json`", INDEX, flags=re.DOTALL)
    assert set(names_in(sentence)) == {verb for verb, own in options().items() if "--json" not in own}


@pytest.mark.parametrize("verb", sorted(options()))
def test_the_page_of_a_verb_has_its_options_and_no_others(verb: str) -> None:
    page = (ROOT / "docs" / "verbs" / f"{PAGES.get(verb, verb)}.md").read_text(encoding="utf-8")
    rows = [cell for cell in re.findall(r"^\| (`.*?`[^|]*) \|", page, flags=re.MULTILINE) if "`-" in cell]
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", " ".join(rows)))
    sharing = [own for other, own in options().items() if PAGES.get(other, other) == PAGES.get(verb, verb)]
    assert options()[verb] - shown == {"--help", "--debug"}, "these are not on the page"
    assert shown <= set().union(*sharing), "these do not exist"
