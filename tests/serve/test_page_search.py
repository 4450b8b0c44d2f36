"""The page's tab Search in a real Chromium: lists, files, long work that is cancelled and continued, results."""

import codecs
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from sentence_transformers import SentenceTransformer

from serve.browsing import EMBEDDINGS, Stopper, chromium, visiting
from serve.services import running, torch_engine
from tiny import PAIRS

LINES = list(dict.fromkeys(pair.target for pair in PAIRS))
LONG = [f"{one} {two}" for one in LINES for two in LINES[:8]]
QUERY = "the dog eats an apple."
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(models: Path) -> Iterator[str]:
    with running(torch_engine(models / "student"), max_inputs=256) as service:
        yield f"{service.url}/#search"


def enter(page: Page, lines: Sequence[str]) -> None:
    page.get_by_label("List to search").fill("\n".join(lines))


def load(page: Page, lines: Sequence[str]) -> None:
    enter(page, lines)
    page.get_by_role("button", name="Load list").click()


def search(page: Page, query: str) -> None:
    page.get_by_label("Search, in any language").fill(query)
    page.keyboard.press("Enter")


def hits(page: Page) -> list[list[str]]:
    """Rank, similarity, sentence and line of each hit."""
    return [row.locator("td").all_inner_texts() for row in page.locator("#hits tbody tr").all()]


def test_the_nearest_lines_are_found(browser: Browser, address: str, models: Path, tmp_path: Path) -> None:
    vectors = SentenceTransformer(str(models / "student"), device="cpu").encode([QUERY, *LINES], batch_size=1)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    truth = dict(zip(LINES, (unit[1:] @ unit[0]).tolist(), strict=True))
    with visiting(browser, address) as page:
        enter(page, ["", *LINES[:30], LINES[3], "  ", *LINES[30:]])
        search(page, QUERY)  # loads the list first
        expect(page.locator("#search-facts")).to_contain_text(f"Best 10 of {len(LINES)} lines. Query embedded in ")
        expect(page.locator("#list-notice")).to_contain_text(f"{len(LINES)} lines loaded in ")
        expect(page.locator("#list-notice")).to_contain_text("; 1 repeated line left out.")
        found = hits(page)
        assert [row[0] for row in found] == [str(rank) for rank in range(1, 11)]
        np.testing.assert_allclose([float(row[1]) for row in found], sorted(truth.values(), reverse=True)[:10], atol=0.00006)
        for _rank, score, text, line in found:
            assert abs(truth[text] - float(score)) < 0.00006
            place = LINES.index(text)
            assert int(line) == place + (2 if place < 30 else 4)

        with page.expect_download() as download:
            page.get_by_role("button", name="Download TSV").locator("visible=true").click()
        assert download.value.suggested_filename == "search.tsv"
        download.value.save_as(tmp_path / "search.tsv")
        table = [line.split("\t") for line in (tmp_path / "search.tsv").read_text(encoding="utf-8").splitlines()]
        assert table == [
            ["rank", "similarity", "line", "sentence"],
            *([rank, score, line, text] for rank, score, text, line in found),
        ]

        search(page, LINES[17])
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{LINES[17]}19")


def test_results_are_copied_without_a_clipboard(browser: Browser, address: str) -> None:
    """Over plain HTTP, browsers have none."""
    with visiting(browser, address, init=NO_CLIPBOARD) as page:
        enter(page, ["one\ttwo", "three"])
        search(page, "one\ttwo")
        page.get_by_role("button", name="Copy as TSV").locator("visible=true").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        page.get_by_label("List to search").fill("")
        page.get_by_label("List to search").focus()
        page.keyboard.press("Control+V")
        pasted = page.get_by_label("List to search").input_value().splitlines()
        assert pasted[0] == "rank\tsimilarity\tline\tsentence" and pasted[1] == "1\t1.0000\t1\tone two" and len(pasted) == 3


def test_what_is_missing_is_asked_for(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        search(page, " ")
        expect(page.locator("#search-notice")).to_have_text("Enter what to search for.")
        enter(page, [" ", ""])
        expect(page.locator("#list-count")).to_have_text("0 lines")
        search(page, QUERY)
        expect(page.locator("#list-notice")).to_have_text("Paste sentences or choose a file first.")
        expect(page.locator("#search-notice")).to_be_hidden()


def test_loading_is_cancelled_searched_and_continued(browser: Browser, address: str) -> None:
    lines = LONG[:600]
    with visiting(browser, address) as page:
        expect(page.locator("#model-line")).to_be_visible()
        with Stopper(page, 0):
            load(page, lines)
            expect(page.locator("#list-work")).to_contain_text("0 of 600 lines")
            search(page, lines[5])
            expect(page.locator("#search-notice")).to_contain_text("The list is still being loaded")
            page.get_by_role("button", name="Cancel").click()
            expect(page.locator("#list-notice")).to_contain_text("Stopped.Nothing is loaded yet.")
        with Stopper(page, 4):
            load(page, lines)
            expect(page.locator("#list-work")).to_contain_text("512 of 600 lines")
            bar = page.get_by_role("progressbar", name="Loading")
            assert bar.evaluate("(bar) => [bar.value, bar.max]") == [512, 600]
            page.get_by_role("button", name="Cancel").click()
            expect(page.locator("#list-notice")).to_contain_text("Stopped.512 of 600 lines can be searched already.")
            expect(page.locator("#list-work")).to_be_hidden()

        search(page, lines[99])
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{lines[99]}100")
        expect(page.locator("#search-facts")).to_contain_text("Best 10 of 512 lines loaded so far.")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#list-notice")).to_contain_text("600 lines loaded in ")
        search(page, lines[555])
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{lines[555]}556")
        expect(page.locator("#search-facts")).to_contain_text("Best 10 of 600 lines. ")


def test_a_search_is_cancelled(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        load(page, LINES)
        expect(page.locator("#list-notice")).to_contain_text("lines loaded in ")
        with Stopper(page, 0):
            search(page, QUERY)
            page.get_by_role("button", name="Cancel").click()
            expect(page.locator("#search-work")).to_be_hidden()
        expect(page.locator("#hits")).to_be_hidden()
        search(page, QUERY)
        expect(page.locator("#hits tbody tr")).to_have_count(10)


def test_loading_continues_after_the_service_was_gone(browser: Browser, address: str) -> None:
    requests = []

    def answer(route: Route) -> None:
        requests.append(route)
        if len(requests) == 2:
            route.abort("connectionfailed")
        else:
            route.continue_()

    with visiting(browser, address, expected_errors="ERR_CONNECTION_FAILED") as page:
        page.route(EMBEDDINGS, answer)
        expect(page.locator("#model-line")).to_be_visible()
        load(page, LONG[:300])
        expect(page.locator("#list-notice p").first).to_have_text("The service does not answer.")
        expect(page.locator("#list-notice")).to_contain_text("128 of 300 lines can be searched already.")
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#list-notice")).to_contain_text("300 lines loaded in ")
        assert page.locator("#list-notice.error").count() == 0


def test_requests_become_as_small_as_the_service_wants_them(browser: Browser, models: Path) -> None:
    """A line that is refused is named by its number, once it is alone in a request."""
    sizes = []
    engine = torch_engine(models / "student")
    with (
        running(engine, max_inputs=40) as service,
        visiting(browser, f"{service.url}/#search", expected_errors="status of 422") as page,
    ):
        expect(page.locator("#model-line")).to_be_visible()

        def answer(route: Route) -> None:
            texts = texts_of(route)
            sizes.append(len(texts))
            if "poison" in texts and len(texts) <= 40:
                route.fulfill(status=422, json={"error": {"message": "cannot be read", "param": "input[0]"}})
            else:
                route.continue_()

        page.route(EMBEDDINGS, answer)
        load(page, [*LINES[:70], "", "poison", "after"])
        expect(page.locator("#list-notice p").first).to_have_text("Line 72: The service refused this: cannot be read.")
        expect(page.locator("#list-notice")).to_contain_text("70 of 72 lines can be searched already.")
        assert sizes[:3] == [72, 36, 36] and sizes[-1] == 1 and len(sizes) < 15
        search(page, LINES[69])
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{LINES[69]}70")


def texts_of(route: Route) -> list[str]:
    """What a request wants embedded."""
    texts: list[str] = json.loads(route.request.post_data or "")["input"]
    return texts


FILES = (
    ("lines.txt", codecs.BOM_UTF8 + b"one\r\ntwo, 2\n\nthree", ["one", "two, 2", "three"], ["1: one"]),
    ("LINES.TXT", codecs.BOM_UTF16_LE + "Straße\nعربي".encode("utf-16-le"), ["Straße", "عربي"], ["1: Straße"]),
    ("lines.md", codecs.BOM_UTF16_BE + "Straße".encode("utf-16-be"), ["Straße"], ["1: Straße"]),
    (
        "a.tsv",
        b'id\tsplit\ttext\n1\ttrain\tAn "odd" one\n2\ttest\n',
        ["text", 'An "odd" one', ""],
        ["1: id", "2: split", "3: text"],
    ),
    ("a.csv", b'1,"one, ""two""\nthree"\r\n2,four', ['one, "two" three', "four"], ["1: 1", '2: one, "two" three']),
    ("a.csv", b"x;y;1,5\nlonger than that;z;2\n", ["x", "longer than that"], ["1: x", "2: y", "3: 1,5"]),
    ("a.csv", b'"never closed\nend', ["never closed end"], ["1: never closed end"]),
    ("a.csv", b"first\n\n,\n  ,second\n", ["first", "  "], ["1: first", "2: "]),
)


def test_files_are_read(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        for name, content, lines, columns in FILES:
            choose(page, name, content)
            count = sum(bool(line.strip()) for line in lines)
            expect(page.locator("#list-notice")).to_have_text(f"{count} {'line' if count == 1 else 'lines'} read from {name}.")
            assert page.get_by_label("List to search").input_value().split("\n") == lines
            assert page.locator("#column option").all_inner_texts() == columns
            assert page.locator("#columns").is_visible() == (len(columns) > 1)


def choose(page: Page, name: str, content: bytes) -> None:
    page.get_by_label("or from a file").set_input_files({"name": name, "mimeType": "", "buffer": content})


def test_work_may_begin_before_the_models_are_known(browser: Browser, address: str) -> None:
    asked: list[Route] = []
    with visiting(browser, address) as page:
        page.route("**/v1/models", lambda route: asked.append(route))
        page.reload()
        choose(page, "lines.txt", "\n".join(LINES).encode())
        search(page, LINES[3])
        expect(page.locator("#hits tbody tr")).to_have_count(10)
        asked[0].continue_()
        expect(page.locator("#model-line")).to_be_visible()
        expect(page.locator("#list-notice")).to_contain_text("lines loaded in ")
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{LINES[3]}4")


def test_a_column_is_chosen_and_its_name_left_out(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        choose(page, "pairs.tsv", "en\tde\tnone\nthe dog\tder große Hund\t\nthe cat\tdie schlafende Katze\t\n".encode())
        text = page.get_by_label("List to search")
        expect(text).to_have_value("de\nder große Hund\ndie schlafende Katze")
        page.get_by_label("The first row has the names of the columns").check()
        expect(text).to_have_value("der große Hund\ndie schlafende Katze")
        page.get_by_label("Column", exact=True).select_option("1: en")
        expect(text).to_have_value("the dog\nthe cat")
        page.get_by_role("button", name="Load list").click()
        expect(page.locator("#list-notice")).to_contain_text("2 lines loaded in ")
        page.get_by_label("Column", exact=True).select_option("3: none")
        expect(page.locator("#list-notice")).to_have_text("pairs.tsv has no text in this column.")


def test_files_that_are_not_text_are_refused(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        enter(page, ["kept"])
        for name, content, message in (
            ("latin.txt", "Straße".encode("latin-1"), "latin.txt is not text in UTF-8."),
            ("image.csv", b"GIF\0\0", "image.csv is not text in UTF-8."),
        ):
            choose(page, name, content)
            expect(page.locator("#list-notice.error p").first).to_have_text(message)
            expect(page.get_by_label("List to search")).to_have_value("kept")
        choose(page, "empty.txt", b"")
        expect(page.locator("#list-notice")).to_have_text("empty.txt has no text.")


def test_a_list_has_at_most_20000_lines(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page, Stopper(page):
        choose(page, "many.txt", "\n".join(map(str, [7, *range(20_001)])).encode())
        expect(page.locator("#list-notice")).to_have_text("20,002 lines read from many.txt.")
        expect(page.locator("#list-count")).to_have_text("20,002 lines; the first 20,000 different ones are loaded")
        page.get_by_role("button", name="Load list").click()
        expect(page.locator("#list-work")).to_contain_text("0 of 20,000 lines")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#list-notice")).to_contain_text("Nothing is loaded yet.")
