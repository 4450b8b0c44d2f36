"""A real headless Chromium for the tests of the page."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, Route, sync_playwright

from programs import needed_program

EMBEDDINGS = "**/v1/embeddings"
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


class Stopper:
    """Holds up requests for embeddings on their way out of the browser, after so many that pass."""

    def __init__(self, page: Page, passing: int = 0) -> None:
        self.page, self.passing = page, passing
        self.held: list[Route] = []

    def __enter__(self) -> "Stopper":
        self.page.route(EMBEDDINGS, self._decide)
        return self

    def __exit__(self, *_error: object) -> None:
        self.page.unroute(EMBEDDINGS)

    def _decide(self, route: Route) -> None:
        self.passing -= 1
        if self.passing < 0:
            self.held.append(route)
        else:
            route.continue_()
