"""A real headless Chromium and a real server for the tests of the page."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright
from starlette.responses import JSONResponse

from isogloss.config.serving import ServeSettings
from isogloss.serve.app import create_app
from isogloss.serve.engine import Engine, open_engine
from programs import needed_program

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Text and edges of controls that differ too little from what is behind them, by the formula of WCAG 2.
TOO_FAINT = """
() => {
  const rgb = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => rgb(color).slice(0, 3).map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const contrast = (one, two) => {
    const [dark, bright] = [luminance(one), luminance(two)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      const [, , , opacity = 1] = rgb(color);
      if (opacity === 1) return color;
      if (opacity > 0) throw new Error(`half-transparent ${color}`);
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  let seen = 0;
  const check = (what, element, ratio, least) => {
    seen += 1;
    if (ratio < least) faint.push([what, element.outerHTML.slice(0, 80), ratio]);
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility()) continue;
    const control = element.matches("button, textarea, select, input:not([type=checkbox])");
    const text = control || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (text) check("text", element, contrast(getComputedStyle(element).color, behind(element)), 4.5);
    if (element.placeholder) {
      check("placeholder", element, contrast(getComputedStyle(element, "::placeholder").color, behind(element)), 4.5);
    }
    if (control && element.role !== "tab") {
      const { borderColor, backgroundColor } = getComputedStyle(element);
      const outside = behind(element.parentElement);
      check("edge", element, Math.max(contrast(borderColor, outside), contrast(backgroundColor, outside)), 3);
    }
  }
  return { seen, faint };
}
"""
WATCH_POLICY = "addEventListener('securitypolicyviolation', (event) => console.error('policy: ' + event.violatedDirective))"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium; the test is skipped without it."""
    program = needed_program("chromium", "chromium-browser", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


def small_service(*folders: Path, name: str = "", engines: list[Engine] | None = None, **settings: int) -> App:
    """The service over small models, one thread. Its engines are added to `engines`."""
    loaded = [open_engine(str(folder), name or folder.name, "cpu") for folder in folders]
    if engines is not None:
        engines += loaded
    app: App = create_app(loaded, ServeSettings(threads=1, **settings))  # type: ignore[arg-type, assignment]
    return app


@contextmanager
def serving(app: App) -> Iterator[str]:
    """An application behind uvicorn, in a thread; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@contextmanager
def visiting(
    browser: Browser,
    address: str,
    *,
    scheme: Literal["dark", "light"] = "light",
    width: int = 1280,
    expected_errors: str | None = None,
    init: str = "",
) -> Iterator[Page]:
    """The page of a service, opened. When the block ends, nothing may have gone wrong or been fetched from elsewhere.

    Chromium logs an error for each response with an error status; those with `expected_errors` in them may occur.
    """
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 800})
    context.set_default_timeout(10_000)
    context.add_init_script(WATCH_POLICY)
    if init:
        context.add_init_script(init)
    page = context.new_page()
    problems: list[str] = []
    addresses: list[str] = []

    def logged(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not (expected_errors and expected_errors in message.text):
            problems.append(message.text)

    page.on("console", logged)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(address)
    yield page
    context.close()
    assert problems == []
    assert (
        addresses and [one for one in addresses if not one.startswith(("/".join(address.split("/")[:3]) + "/", "blob:"))] == []
    )


class Door:
    """Stands before the service: holds up requests for embeddings, asks for a key, and remembers the statuses of responses."""

    def __init__(self, app: App, key: str = "") -> None:
        self.app, self.key = app, key
        self.statuses: list[int] = []
        self._passing = 0  # requests that still pass while the door is closed
        self._opened: threading.Event | None = None  # None: it is open

    @contextmanager
    def closed_after(self, requests: int) -> Iterator[None]:
        """Let so many requests pass; the others wait until the block ends."""
        opened = threading.Event()
        self._passing, self._opened = requests, opened
        try:
            yield
        finally:
            self._opened = None
            opened.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
            return await self.app(scope, receive, send)

        async def remembered(message: Scope) -> None:
            if message["type"] == "http.response.start":
                self.statuses.append(message["status"])
            await send(message)

        if self.key and dict(scope["headers"]).get(b"authorization") != f"Bearer {self.key}".encode():
            refusal = JSONResponse({"error": {"message": "a key is needed", "param": None}}, 401)
            return await refusal(scope, receive, remembered)
        if scope["method"] == "POST" and self._opened is not None:
            self._passing -= 1
            if self._passing < 0:
                await asyncio.to_thread(self._opened.wait)
        await self.app(scope, receive, remembered)
