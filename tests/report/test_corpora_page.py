"""The page of a store: every number that it promises is on it, and data cannot break out of it."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from corpora.stores import stored
from isogloss.config import CleaningSettings
from isogloss.corpora.store import Store
from isogloss.corpora.summary import Summary, summarize
from isogloss.report.corpora_page import corpora_page
from isogloss.types import Pair

BAD = "<script>alert('x')</script>"
SETTINGS = CleaningSettings(min_language=0.0, min_numbers=0.0, max_repetition=1.0, duplicates="exact", max_length_ratio=50.0)


def pairs() -> list[Pair]:
    made = []
    for number in range(40):
        source = f"The {number}th sentence {BAD if number % 7 == 0 else 'is plain'}."
        made.append(Pair(source, f"Der {number}. Satz {BAD if number % 7 == 0 else 'ist schlicht'}.", "de", "a&b", ""))
        if number % 2 == 0:
            made.append(Pair(source, f"המשפט ה-{number} פשוט מאוד.", "he", "other<i>", ""))
            made.append(Pair(source, f"Der Satz {number} noch einmal.", "de", "other<i>", ""))
    same = f"same on both sides {BAD}"
    return [*made, Pair(same, same, "de", "a&b", "")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stored(tmp_path_factory.mktemp("page") / "mine <b>", pairs(), SETTINGS)


@pytest.fixture(scope="module")
def summary(store: Store) -> Summary:
    return summarize(store, samples=100)


@pytest.fixture(scope="module")
def page(store: Store, summary: Summary) -> Element:
    return ElementTree.fromstring(corpora_page(store, summary))


def section(page: Element, key: str) -> Element:
    (found,) = [one for one in page.iter("section") if one.get("id") == key]
    return found


def rows(section: Element, table: int = 0) -> dict[str, list[str]]:
    """The text of a table, by the name of the row."""
    body = list(section.iter("tbody"))[table]
    return {"".join(row[0].itertext()): ["".join(cell.itertext()) for cell in row[1:]] for row in body}


def test_every_section_is_there(page: Element) -> None:
    keys = [one.get("id") for one in page.iter("section")]
    assert keys == [
        *("sizes", "corpora", "languages", "waterfall", "rules", "leaks", "thresholds"),
        *("overlap", "ways", "balance", "samples"),
    ]
    assert page.findtext("body/header/h1") == "mine <b>"


def test_text_of_the_data_is_shown_and_not_run(page: Element, store: Store, summary: Summary) -> None:
    written = corpora_page(store, summary)
    assert "<script" not in written and "&lt;script&gt;" in written
    shown = ["".join(span.itertext()) for span in section(page, "samples").iter("span") if span.get("dir") == "auto"]
    for pair in store.bitext():
        assert pair.source in shown and pair.target in shown
    hebrew = [span for span in page.iter("span") if span.get("lang") == "he"]
    assert hebrew and all(span.get("dir") == "auto" for span in hebrew)


def test_sizes_are_those_of_the_cells(page: Element, summary: Summary) -> None:
    sizes = section(page, "sizes")
    hovers = [title.text for title in sizes.iter("title")]
    for cell in summary.cells:
        said = f"{cell.corpus}, {cell.language}: {cell.pairs} pairs, {cell.test} of them held out"
        assert hovers.count(said) == 2, "once for a wide screen, once for a phone"
    counts = {(cell.language, cell.corpus): str(cell.pairs) for cell in summary.cells}
    heads = ["".join(head.itertext()) for head in next(iter(sizes.iter("thead")))[0]][1:]
    for language, cells in rows(sizes).items():
        assert cells == [counts.get((language, corpus), "") for corpus in heads]


def test_tables_have_the_numbers_of_the_manifest(page: Element, store: Store, summary: Summary) -> None:
    for corpus, cells in rows(section(page, "corpora")).items():
        counts = store.manifest["corpora"][corpus]
        assert cells[1:3] == [str(counts["train"]), str(counts["test"])]
        assert cells[6:] == ["not stated", "not stated", "sentences"]
    languages = rows(section(page, "languages"))
    for own in summary.languages:
        cells = languages[own.language]
        assert cells[1:3] == [str(own.train), str(own.test)]
        assert cells[4:7] == [str(own.source.median), str(own.source.most), str(own.source.longest)]
        assert cells[8:] == [str(own.target.median), str(own.target.most), str(own.target.longest)]


def test_the_waterfall_adds_up_and_has_its_examples(page: Element, store: Store) -> None:
    steps = [one for one in section(page, "waterfall").iter("div") if (one.get("class") or "").startswith("step ")]
    texts = [["".join(part.itertext()) for part in one] for one in steps]
    assert texts[0][0] == "pairs read" and texts[-1][0] == "pairs kept"
    numbers = [int(text[2].replace("−", "-").replace(",", "")) for text in texts]
    assert sum(numbers[:-1]) == numbers[-1] == store.manifest["rows_out"]
    assert [texts[1][0], texts[1][2]] == ["identical sides", "−1"]
    assert f"same on both sides {BAD}" in "".join(section(page, "waterfall").itertext())
    assert "Dropped nothing: empty side" in "".join(section(page, "waterfall").itertext())


def test_rows_of_the_waterfall_have_the_colour_of_the_page(page: Element) -> None:
    """The colour of a step is that of its bar: on the row, it would hide the text."""
    style = "".join(page.findtext("head/style") or "")
    coloured = re.findall(r"([^{}]+)\{[^{}]*background: var\(--(?!paper|stripe)", style)
    assert not re.search(r"(?:^|[},])\s*\.(train|test|dropped|kept)\b", style), "only shapes have these colours"
    assert coloured and all(one.strip().startswith(".key i.") for one in coloured), coloured
    rows = {name for row in page.iter("div") for name in (row.get("class") or "").split() if "step" in (row.get("class") or "")}
    assert {"step", "total", "dropped"} <= rows


def test_overlap_and_ways(page: Element, summary: Summary) -> None:
    overlap = summary.overlap
    table = rows(section(page, "overlap"))
    assert table["other<i>"] == ["a&b", "100 %"] and table["a&b"][1] == f"{100 * overlap.share('a&b', 'other<i>'):.1f} %"
    assert {name: cells[1] for name, cells in rows(section(page, "ways")).items()} == {
        str(count): str(number) for count, number in enumerate(overlap.ways, start=1)
    }
    balance = rows(section(page, "balance"))
    assert all(cells[1].endswith("× 1") for cells in balance.values())
    assert all(cells[2].startswith("50.0 %") for cells in balance.values())


def test_an_estimate_is_said_to_be_one(store: Store, summary: Summary) -> None:
    sampled = replace(summary, overlap=replace(summary.overlap, one_in=8))
    written = corpora_page(store, sampled)
    assert written.count("Estimated from one source sentence in 8") == 2 and "about " in written


def test_many_ways_are_grouped(store: Store, summary: Summary) -> None:
    many = replace(summary, overlap=replace(summary.overlap, ways=tuple(range(1, 77))))
    table = rows(section(ElementTree.fromstring(corpora_page(store, many)), "ways"))
    assert list(table) == ["1", "2", "3", "4", "5–9", "10–19", "20–49", "50–76"]
    assert sum(int(cells[1].replace(",", "")) for cells in table.values()) == sum(range(1, 77))


def test_leaks_thresholds_licenses_and_bad_lines_are_told(store: Store, summary: Summary) -> None:
    manifest = dict(store.manifest)
    manifest["leak_scan"] = {
        "level": "near",
        "sets": [{"name": f"sts/{name}.tsv", "texts": 700, "hash": f"{name}77"} for name in ("dev", "test")],
        "removed": {"in an evaluation set (exact)": 12, "in an evaluation set (near)": 3},
    }
    manifest["thresholds"] = [
        {"rule": "length ratio", "language": "de", "value": 2.25, "reason": "median 1.1 <here>"},
        {"rule": "wrong script", "language": "de", "value": 0.5, "reason": "setting kept: the scores make one heap"},
    ]
    manifest["corpora"] = {name: one | {"license": "CC BY 4.0", "version": "v7"} for name, one in manifest["corpora"].items()}
    manifest["skipped_lines"], manifest["passed_over"] = 5, {"fuzzy": 1}
    manifest["sources"] = [{"first_fault": ""}, {"first_fault": "x.tsv line 3: 1 column"}]
    page = ElementTree.fromstring(corpora_page(Store(store.folder, manifest), summary))
    leaks = section(page, "leaks")
    assert "1,400 texts of 2 evaluation sets (level: near)" in "".join(leaks.itertext())
    assert rows(leaks)["in an evaluation set (exact)"] == ["12"] and rows(leaks, 1) == {"sts": ["2", "1,400"]}
    assert rows(leaks, 2)["sts/dev.tsv"] == ["700", "near", "dev77"]
    thresholds = section(page, "thresholds")
    assert rows(thresholds)["length ratio"] == ["de", "2.25", "median 1.1 <here>"]
    assert "1 as in the recipe" in "".join(thresholds.itertext())
    assert rows(thresholds, 2)["max_tokens"][0] == "128"
    assert all(cells[6:8] == ["CC BY 4.0", "v7"] for cells in rows(section(page, "corpora")).values())
    assert "5 bad lines skipped, the first: x.tsv line 3: 1 column; 1 entry skipped: 1 fuzzy." in "".join(page.itertext())


def told(store: Store, summary: Summary, key: str, **changed: object) -> tuple[Element, str]:
    page = ElementTree.fromstring(corpora_page(Store(store.folder, store.manifest | changed), summary))
    return section(page, key), "".join(section(page, key).itertext())


def test_scans_of_earlier_preparations_are_told_apart(store: Store, summary: Summary) -> None:
    one = {"name": "sts.tsv", "texts": 1, "hash": "77", "level": "exact", "before": True}
    scan = {"level": "near", "sets": [one], "removed": {}}
    _, text = told(store, summary, "leaks", leak_scan=scan)
    assert "held-out rows only" in text and "Its input stores had all been checked against sts.tsv." in text
    leaks, text = told(store, summary, "leaks", leak_scan=scan | {"sets": [one | {"before": False}]})
    assert "Checked against 1 text of sts.tsv (level: near)" in text and "input stores" not in text
    assert rows(leaks, 2) == {"sts.tsv": ["1", "exact", "77"]}
    leaks, text = told(store, summary, "leaks", leak_scan=scan | {"sets": []})
    assert "held-out rows only" in text and len(list(leaks.iter("table"))) == 1


def test_many_thresholds_are_folded(store: Store, summary: Summary) -> None:
    chosen = [{"rule": "length ratio", "language": f"l{n}", "value": 2.0, "reason": "median"} for n in range(30)]
    _, text = told(store, summary, "thresholds", thresholds=chosen)
    assert "Set from the data: 30 thresholds" in text and "30 set from the data" in text
    _, text = told(store, summary, "thresholds", thresholds=chosen[:1])
    assert "Set from the data: 1 threshold," in text and "1 set from the data" not in text


def test_corpora_that_share_nothing(store: Store, summary: Summary) -> None:
    apart = replace(summary, overlap=replace(summary.overlap, shared=((9, 0), (0, 9))))
    overlap, text = told(store, apart, "overlap")
    assert "No source sentence is in two corpora." in text and not list(overlap.iter("svg"))


def test_one_corpus_without_a_name_in_one_language(tmp_path: Path) -> None:
    """No matrix of one, no heat map of rules; the parts that remain are whole."""
    store = stored(tmp_path / "one", [Pair("The sun shines.", "Die Sonne scheint.", "de", "", "train")], SETTINGS)
    page = ElementTree.fromstring(corpora_page(store, summarize(store)))
    keys = [one.get("id") for one in page.iter("section")]
    assert "overlap" not in keys and "rules" not in keys and len(keys) == 9
    assert list(rows(section(page, "corpora"))) == ["(no name)"]
    assert "Die Sonne scheint." in "".join(section(page, "samples").itertext())
