"""What the browser gets: every file of the page, with a policy, and nothing else of the package."""

from html.parser import HTMLParser
from importlib.resources import files

import pytest

from isogloss.serve.page_files import PARTS
from serve.services import Running


def test_every_part_comes_with_the_policy(service: Running) -> None:
    kinds = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    shared = (files("isogloss.report") / "templates" / "page.css").read_bytes()
    assert {name.rpartition(".")[2] for name in PARTS} == {"css", "js", "svg"}
    for path in ("/", *(f"/page/{name}" for name in PARTS)):
        answer = service.ask(path)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        assert answer.status == 200 and answer.body
        assert headers["content-type"].startswith(kinds["html" if path == "/" else path.rpartition(".")[2]])
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-cache")
        policy = dict(part.split(maxsplit=1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert service.ask("/page/report.css").body == shared


@pytest.mark.parametrize("name", ["index.html", "nothing.js", "..%2Fapp.py", "%2e%2e/app.py", "."])
def test_other_files_are_not_given(service: Running, name: str) -> None:
    assert service.ask(f"/page/{name}").status == 404


def test_the_page_asks_for_its_own_parts_with_relative_addresses() -> None:
    """So that it also works where a proxy serves it below a path."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            given = dict(attrs)
            assert not [name for name in given if name.startswith("on") or name == "style"]
            found.extend(str(given[name]) for name in ("src", "href") if name in given)

    Reader().feed((files("isogloss.serve") / "page" / "index.html").read_text(encoding="utf-8"))
    assert found and all(one.startswith("page/") and one.removeprefix("page/") in PARTS for one in found)
