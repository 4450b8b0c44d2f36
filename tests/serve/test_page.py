"""The page in a real Chromium, with a real service behind it: comparing sentences, models, keys, errors, and how it looks."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from sentence_transformers import SentenceTransformer

from isogloss.serve.engine import Served
from isogloss.types import FloatArray
from serve.browsing import EMBEDDINGS, TOO_FAINT, chromium, visiting
from serve.services import Held, running, torch_engine

SENTENCES = [
    "the cat sleeps at night.",
    "die Katze schläft nachts.",
    "собака ест яблоко.",
    "القطة نائمة",
    "my friend runs home.",
]
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>&lt;b&gt;"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(models: Path) -> Iterator[str]:
    with running(torch_engine(models / "student", "student")) as service:
        yield service.url


def compare(page: Page, texts: Sequence[str]) -> None:
    page.get_by_label("Sentences, one per line").fill("\n".join(texts))
    page.get_by_role("button", name="Compare").click()


def rows(page: Page) -> Locator:
    return page.locator("#matrix tbody tr")


def cell(page: Page, row: int, column: int) -> Locator:
    return rows(page).nth(row).locator("td").nth(column)


def cosines(folder: Path, texts: Sequence[str]) -> FloatArray:
    vectors = SentenceTransformer(str(folder), device="cpu").encode(list(texts), batch_size=1)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarities: FloatArray = unit @ unit.T
    return similarities


def test_the_matrix_has_the_cosines_of_the_model(browser: Browser, address: str, models: Path) -> None:
    truth = cosines(models / "student", SENTENCES)
    with visiting(browser, address) as page:
        expect(page.locator("#model-line")).to_contain_text("24 dimensions · up to 64 tokens per text")
        compare(page, ["", f"  {SENTENCES[0]}", "   ", *SENTENCES[1:]])
        expect(rows(page)).to_have_count(5)
        assert page.locator("#matrix tbody th").all_inner_texts() == [f"{n}\n{text}" for n, text in enumerate(SENTENCES, 1)]
        shown = [[float(number) for number in row.locator("td").all_inner_texts()] for row in rows(page).all()]
        np.testing.assert_allclose(shown, truth, atol=0.00501)
        assert len({str(one.get_attribute("class")) for one in page.locator("#matrix td").all()}) > 3

        cell(page, 1, 4).hover()
        expect(page.locator("#detail")).to_have_text(f"{truth[1, 4]:.4f}2{SENTENCES[1]}5{SENTENCES[4]}")
        expect(page.locator("#matrix .marked")).to_have_count(3)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy as TSV").locator("visible=true").click()
        expect(page.get_by_text("Copied.")).to_be_visible()
        table = [line.split("\t") for line in page.evaluate("navigator.clipboard.readText()").splitlines()]
        assert table[0] == ["", *SENTENCES] and [row[0] for row in table[1:]] == SENTENCES
        np.testing.assert_allclose([[float(one) for one in row[1:]] for row in table[1:]], truth, atol=0.000051)


def test_the_matrix_is_read_with_the_keyboard(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        page.get_by_label("Sentences, one per line").fill("\n".join(SENTENCES))
        page.keyboard.press("Control+Enter")
        expect(rows(page)).to_have_count(5)
        page.get_by_label("Stretch colors").focus()
        for keys, row, column in (
            ("Tab", 0, 1),
            ("ArrowDown ArrowRight", 1, 2),
            ("End ArrowRight", 1, 4),
            ("Home ArrowUp ArrowUp", 0, 0),
        ):
            for key in keys.split():
                page.keyboard.press(key)
            expect(cell(page, row, column)).to_be_focused()
            expect(page.locator("#detail .numbered span")).to_have_text([SENTENCES[row], SENTENCES[column]])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Copy as TSV").locator("visible=true")).to_be_focused()
        page.keyboard.press("Shift+Tab")
        expect(cell(page, 1, 0)).to_be_focused()


def test_colors_span_0_to_1_or_the_values_shown(browser: Browser, address: str) -> None:
    def levels() -> list[int]:
        return [int(str(one.get_attribute("class")).split()[1][5:]) for one in page.locator("#matrix td.heat").all()]

    with visiting(browser, address) as page:
        compare(page, SENTENCES)
        expect(page.locator("#matrix-legend")).to_have_text("cosine similarity 0.001.00")
        for one in page.locator("#matrix td.heat").all():
            number, level = float(one.inner_text()), int(str(one.get_attribute("class")).split()[1][5:])
            assert abs(number * 9 - level + 0.5) <= 0.55 or number <= 0 == level
        page.get_by_label("Stretch colors").check()
        values = [float(one) for one in page.locator("#matrix td.heat").all_inner_texts()]
        expect(page.locator("#matrix-legend")).to_have_text(f"cosine similarity {min(values):.2f}{max(values):.2f}")
        assert min(levels()) == 0 and max(levels()) == 9


def test_a_matrix_has_2_to_60_sentences(browser: Browser, address: str) -> None:
    many = [f"{place} cats" for place in range(61)]
    with visiting(browser, address) as page:
        compare(page, many)
        expect(page.get_by_role("alert").locator("visible=true")).to_have_text(
            "These are 61 sentences; a readable matrix has at most 60. Remove 1 sentence, or use Search for long lists."
        )
        expect(page.locator("#sentences-count")).to_have_text("61 / 60 sentences")
        compare(page, many[1:])
        expect(rows(page)).to_have_count(60)
        expect(page.get_by_role("alert").locator("visible=true")).to_have_count(0)
        compare(page, many[:1])
        expect(page.get_by_role("alert").locator("visible=true")).to_have_text("Enter at least two sentences, one per line.")


def test_text_stays_text_in_its_own_direction(browser: Browser, models: Path) -> None:
    engine = torch_engine(models / "student", HOSTILE)
    with running(engine) as service, visiting(browser, service.url) as page:
        expect(page.locator("#model-name")).to_have_text(HOSTILE)
        compare(page, [HOSTILE, "החתול ישן.", "القطة نائمة."])
        expect(rows(page)).to_have_count(3)
        cell(page, 0, 1).hover()
        expect(page.locator("#detail .numbered span")).to_have_text([HOSTILE, "החתול ישן."])
        directions = "(spans) => spans.map((span) => getComputedStyle(span).direction)"
        assert page.locator("#matrix tbody th span").evaluate_all(directions) == ["ltr", "rtl", "rtl"]
        assert page.locator("#detail .numbered span").evaluate_all(directions) == ["ltr", "rtl"]
        page.get_by_role("tab", name="Search").click()
        page.get_by_label("List to search").fill(f"{HOSTILE}\n\nhello\ud800")
        page.get_by_label("Search, in any language").fill(HOSTILE)
        page.keyboard.press("Enter")
        expect(page.locator("#hits tbody tr").first).to_have_text(f"11.0000{HOSTILE}1")
        assert page.locator("body img, main script").count() == 0


def test_one_of_several_models_is_chosen(browser: Browser, models: Path) -> None:
    engines = [torch_engine(models / name, name) for name in ("student", "teacher")]
    with running(*engines) as service, visiting(browser, service.url) as page:
        for name, dimension in (("teacher", 16), ("student", 24)):
            page.get_by_label("Model").select_option(name)
            expect(page.locator("#model-facts")).to_contain_text(f"{dimension} dimensions")
            expect(page.locator("#matrix")).to_be_hidden()
            compare(page, SENTENCES)
            expect(rows(page)).to_have_count(5)
            truth = cosines(models / name, SENTENCES)
            cell(page, 0, 2).hover()
            expect(page.locator("#detail .value")).to_have_text(f"{truth[0, 2]:.4f}")


def test_a_key_is_asked_for_and_not_stored(browser: Browser, models: Path) -> None:
    engine = torch_engine(models / "student")
    with (
        running(engine, keys=["right"]) as service,
        visiting(browser, service.url, expected_errors="status of 401") as page,
    ):
        form = page.locator("#key-form")
        expect(form).to_contain_text("This service needs an API key.")
        expect(page.get_by_label("API key")).to_be_focused()
        compare(page, SENTENCES)
        page.get_by_label("API key").fill("wrong")
        page.keyboard.press("Enter")
        expect(form).to_contain_text("The service does not accept this key.")
        expect(page.locator("#model-line")).to_be_hidden()
        page.get_by_label("API key").fill("right")
        page.get_by_role("button", name="Use this key").click()
        expect(form).to_be_hidden()
        expect(page.get_by_role("tab", name="Compare")).to_be_focused()
        expect(page.locator("#model-line")).to_contain_text("24 dimensions")
        compare(page, SENTENCES)
        expect(rows(page)).to_have_count(5)
        assert page.get_by_label("API key").input_value() == ""
        assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0


def test_a_busy_service_is_asked_again(browser: Browser, models: Path) -> None:
    """The queue is really full: the model is held up, and as much waits as may wait."""
    engine = Held(torch_engine(models / "student"))
    text = SENTENCES[0]
    fitting = 200 // len(engine.token_ids([text])[0])
    with (
        running(engine, queue_tokens=200) as service,
        visiting(browser, service.url, expected_errors="status of 429") as page,
    ):
        expect(page.locator("#model-line")).to_be_visible()
        first = threading.Thread(target=service.embed, args=[[text]])
        first.start()
        engine.entered.acquire()
        second = threading.Thread(target=service.embed, args=[[text] * fitting])
        second.start()
        while not service.service.metrics.registry.get_sample_value("isogloss_queue_tokens"):
            time.sleep(0.005)
        compare(page, SENTENCES)
        expect(page.locator("#compare-work")).to_contain_text("The service is busy. Continuing in 1 second.")
        engine.gate.set()
        expect(rows(page)).to_have_count(5)
        expect(page.locator("#compare-work")).to_be_hidden()
        first.join()
        second.join()


def test_the_page_waits_for_a_service_that_starts(browser: Browser, models: Path) -> None:
    with running() as service, visiting(browser, service.url, expected_errors="status of 503") as page:
        expect(page.locator("#service-notice")).to_contain_text("The service is busy or still starting.")
        page.clock.install()
        page.reload()
        expect(page.locator("#service-notice")).to_contain_text("Trying again in 5 seconds.")
        page.clock.run_for(1000)
        expect(page.locator("#service-notice")).to_contain_text("Trying again in 4 seconds.")
        service.service.open([Served.warmed(torch_engine(models / "student"))])
        page.clock.run_for(4000)
        expect(page.locator("#model-line")).to_contain_text("24 dimensions")
        expect(page.locator("#service-notice")).to_be_hidden()


def test_a_service_that_is_gone_is_tried_again(browser: Browser, address: str) -> None:
    with visiting(browser, address, expected_errors="ERR_INTERNET_DISCONNECTED") as page:
        expect(page.locator("#model-line")).to_be_visible()
        page.context.set_offline(True)
        compare(page, SENTENCES)
        message = page.locator("#compare-notice")
        expect(message.locator("p")).to_have_text(
            ["The service does not answer.", "Check that isogloss serve is still running, then try again."]
        )
        page.context.set_offline(False)
        message.get_by_role("button", name="Try again").click()
        expect(rows(page)).to_have_count(5)
        expect(message).to_be_hidden()


ANSWERS = (
    (400, '{"error": {"message": "no such thing.", "param": "dimensions"}}', "The service refused this: no such thing."),
    (404, '{"error": {"message": "the model is gone"}}', "Not found: the model is gone.Reload the page"),
    (403, "<h1>Forbidden</h1>", "The service does not allow this: status 403.Ask whoever runs it"),
    (500, '{"error": {"message": "out of memory"}}', "The service failed: out of memory.Try again."),
    (502, "", "The service failed: status 502."),
    (503, '{"error": {"message": "loading"}}', "The service is not ready: loading."),
    (200, "<html>", "The answer of the service cannot be read (no JSON)."),
    (200, '{"data": []}', "The answer of the service cannot be read (other embeddings than asked for)."),
    (200, '{"data": [{"embedding": [1]}, {"embedding": 2}]}', "cannot be read (embeddings that are not base64)."),
)


def answer_with(page: Page, status: int, body: str) -> None:
    page.route(EMBEDDINGS, lambda route: route.fulfill(status=status, body=body))


def test_answers_of_servers_in_between_are_put_in_plain_words(browser: Browser, address: str) -> None:
    with visiting(browser, address, expected_errors="responded with a status of") as page:
        for status, body, message in ANSWERS:
            answer_with(page, status, body)
            compare(page, SENTENCES[:2])
            expect(page.locator("#compare-notice")).to_contain_text(message)
            page.unroute(EMBEDDINGS)
        page.get_by_role("button", name="Try again").click()
        expect(rows(page)).to_have_count(2)


def test_models_are_asked_for_again(browser: Browser, address: str) -> None:
    with visiting(browser, address) as page:
        page.route("**/v1/models", lambda route: route.fulfill(status=200, json={"data": [{"name": "no id"}]}))
        page.reload()
        message = page.locator("#service-notice")
        expect(message).to_contain_text("cannot be read (no models)")
        page.unroute("**/v1/models")
        message.get_by_role("button", name="Try again").click()
        expect(page.locator("#model-line")).to_contain_text("24 dimensions")
        expect(message).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_can_be_read(browser: Browser, address: str, scheme: Literal["light", "dark"]) -> None:
    """At 400 pixels nothing makes the page scroll sideways; contrast is that of WCAG AA, also for each color of the matrix."""
    with visiting(browser, address, scheme=scheme, width=400) as page:
        expect(page.locator("#model-line")).to_be_visible()
        check_look(page)
        compare(page, ["x" * 500, "word " * 150, *(f"{place} cats" for place in range(40))])
        expect(rows(page)).to_have_count(42)
        cell(page, 0, 1).hover()
        page.evaluate("document.querySelectorAll('#matrix td').forEach((cell, n) => (cell.className = `heat heat-${n % 10}`))")
        check_look(page)
        page.evaluate("document.getElementById('key-form').hidden = false")
        compare(page, ["one"])
        check_look(page)
        page.get_by_role("tab", name="Search").click()
        page.get_by_label("List to search").fill("x" * 500 + "\n" + "word " * 150)
        page.get_by_label("Search, in any language").fill("z" * 300)
        page.keyboard.press("Enter")
        expect(page.locator("#hits tbody tr")).to_have_count(2)
        name = "n" * 200 + ".csv"
        page.get_by_label("or from a file").set_input_files(
            {"name": name, "mimeType": "text/csv", "buffer": b"x" * 300 + b",y"}
        )
        expect(page.get_by_label("Column", exact=True)).to_be_visible()
        check_look(page)


def check_look(page: Page) -> None:
    found = page.evaluate(TOO_FAINT)
    assert found["seen"] > 10 and found["faint"] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    nameless = (
        "(all) => all.filter((one) => !one.labels?.length && !one.textContent.trim() && !one.ariaLabel).map((one) => one.id)"
    )
    assert page.locator("button, input, select, textarea, progress").evaluate_all(nameless) == []


def test_tabs_are_opened_with_arrow_keys_and_addresses(browser: Browser, address: str) -> None:
    with visiting(browser, f"{address}/#search") as page:
        expect(page.get_by_role("tabpanel", name="Search")).to_be_visible()
        expect(page.get_by_role("tabpanel", name="Compare")).to_be_hidden()
        page.get_by_role("tab", name="Search").focus()
        for key, name in (("ArrowRight", "Compare"), ("ArrowLeft", "Search"), ("ArrowLeft", "Compare")):
            page.keyboard.press(key)
            expect(page.get_by_role("tab", name=name, selected=True)).to_be_focused()
            expect(page.get_by_role("tabpanel")).to_have_count(1)
            expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        assert page.url.endswith("/#compare")


def test_print_has_the_result_alone(browser: Browser, address: str) -> None:
    with visiting(browser, address, scheme="dark") as page:
        compare(page, SENTENCES)
        expect(rows(page)).to_have_count(5)
        page.emulate_media(media="print")
        expect(rows(page).first).to_be_visible()
        assert page.locator("button, textarea, input").locator("visible=true").count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate(TOO_FAINT)["faint"] == []
