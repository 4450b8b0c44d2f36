"""Addresses, keys and redirects, over real servers on this machine: two ports, and two names, are two hosts."""

import re
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from isogloss.errors import DataError, IsoglossError
from isogloss.web import NotAnAddress, checked_key, parse_url, send, whole_number


class Host(ThreadingHTTPServer):
    """Answers "here"; or redirects, where it is told to. Notes what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Seen)
        self.seen: list[tuple[str, str, str | None]] = []
        self.redirect = ""
        self.status = 302
        self.length = "4"

    def at(self, name: str = "127.0.0.1", path: str = "/x") -> str:
        return f"http://{name}:{self.server_port}{path}"


class Seen(BaseHTTPRequestHandler):
    server: Host

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization")))
        redirected = self.server.redirect and self.path == "/x"
        self.send_response(self.server.status if redirected else 200)
        if redirected:
            self.send_header("Location", self.server.redirect)
        self.send_header("Content-Length", self.server.length if redirected else "4")
        self.end_headers()
        self.wfile.write(b"here")

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Host, Host]]:
    monkeypatch.setenv("NO_PROXY", "*")
    servers = Host(), Host()
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for thread in threads:
        thread.start()
    yield servers
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


def test_methods_and_schemes_of_keys(hosts: tuple[Host, Host]) -> None:
    first, _ = hosts
    for method, data in (("PUT", b"{}"), ("DELETE", None), ("", b"{}"), ("", None)):
        with send(first.at(), 5, key="SECRET", data=data, method=method, scheme="Basic") as response:
            assert response.read() == b"here"
    assert [seen[0] for seen in first.seen] == ["PUT", "DELETE", "POST", "GET"]
    assert {seen[2] for seen in first.seen} == {"Basic SECRET"}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_key_does_not_follow_a_redirect(hosts: tuple[Host, Host], status: int, name: str) -> None:
    first, second = hosts
    first.status, first.redirect = status, second.at(name, "/y")
    with send(first.at(), 5, key="SECRET") as response:
        assert response.read() == b"here"
    assert first.seen == [("GET", "/x", "Bearer SECRET")] and second.seen == [("GET", "/y", None)]
    first.redirect = first.at(name, "/y")  # the same port under another name is another host too
    with send(first.at(), 5, key="SECRET"):
        assert first.seen[-1] == ("GET", "/y", None)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_what_is_posted_is_not_sent_on(hosts: tuple[Host, Host], status: int) -> None:
    first, second = hosts
    first.status, first.redirect = status, second.at(path="/y?token=SECRET")
    with pytest.raises(DataError, match=r"redirects to http://127.0.0.1:\d+/y\?token=\*\*\*$"):
        send(first.at(), 5, key="SECRET", data=b"{}")
    assert len(first.seen) == 1 and not second.seen


@pytest.mark.parametrize(
    "place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,x", "http://[::1", "http://h:99999/", "http://u:p@h/"]
)
def test_redirects_lead_to_web_addresses_only(hosts: tuple[Host, Host], place: str) -> None:
    hosts[0].redirect = place
    with pytest.raises((DataError, urllib.error.HTTPError)) as caught:
        send(hosts[0].at(), 5)
    if isinstance(caught.value, urllib.error.HTTPError):
        caught.value.close()
    assert "u:p" not in str(caught.value)


def test_a_key_is_not_followed_by_an_unencrypted_redirect() -> None:
    from email.message import Message
    from io import BytesIO
    from urllib.request import Request

    from isogloss.web import _Redirects

    asked = Request("https://host/x")
    asked.add_unredirected_header("Authorization", "Bearer SECRET")
    with pytest.raises(NotAnAddress, match="not encrypted"):
        _Redirects().redirect_request(asked, BytesIO(), 302, "Found", Message(), "http://host/x")  # type: ignore[arg-type]
    followed = _Redirects().redirect_request(asked, BytesIO(), 302, "Found", Message(), "https://other/x")  # type: ignore[arg-type]
    assert followed is not None and not followed.has_header("Authorization")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "file:///x",
        "ftp://h/",
        "http://",
        "http:///x",
        "http://[::1",
        "http://h:x/",
        "http://h:99999/",
        "http://a..b/",
        "http://.h/",
        "http://" + "a" * 70 + ".org/",
        "http://u:p@h/",
        "http://u:p/w@h/",
        "http://u:p" + "w" * 300 + "@h/",
        "https://u@h/",
        "//h/x",
        "http://h\u2100/",
    ],
)
def test_addresses_that_cannot_be_asked_are_refused(url: str) -> None:
    with pytest.raises(NotAnAddress) as caught:
        parse_url(url)
    assert not {"u:p", "'p'"} & set(re.findall(r"u:p|'p'", caught.value.message))


def test_addresses_are_made_of_ascii() -> None:
    assert (
        parse_url("https://Bücher.example/a b/ü?q=é&x=%20#f").geturl()
        == "https://xn--bcher-kva.example/a%20b/%C3%BC?q=%C3%A9&x=%20"
    )
    assert parse_url("http://[::1]:80/x").geturl() == "http://[::1]:80/x"
    assert parse_url("https://h/a\x1b[31m\x7f").geturl() == "https://h/a%1B[31m%7F"


@pytest.mark.parametrize("key", ["SECRET\n", "SEC\r\nX-Evil: 1", "SECRET\x1b", "SÉCRET", "SECRET\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(IsoglossError, match="the key in OPENAI_API_KEY") as caught:
        checked_key(key, "OPENAI_API_KEY")
    assert "CRET" not in caught.value.message + caught.value.hint
    assert checked_key(" sk-1 ", "X") == "sk-1" and checked_key("", "X") == ""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        (" 12 ", 12),
        (7, 7),
        ("²", None),
        ("٣", None),
        ("-1", None),
        (-1, None),
        (True, None),
        ("9" * 5000, None),
        (10**30, None),
        ("", None),
        (None, None),
        (1.5, None),
    ],
)
def test_whole_numbers(text: object, number: int | None) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("status", [302, 404])
def test_a_length_beyond_measure_is_not_read(hosts: tuple[Host, Host], status: int) -> None:
    first, second = hosts
    first.status, first.redirect, first.length = status, second.at(path="/y"), "9" * 30
    if status == 302:
        with send(first.at(), 5) as response:
            assert response.read() == b"here"
    else:
        with pytest.raises(urllib.error.HTTPError) as caught:
            send(first.at(), 5)
        with caught.value as error:
            assert error.read(4) == b"here"
