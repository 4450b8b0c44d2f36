"""The page at `/`: files of the package, with a policy that lets them load nothing from elsewhere."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePath

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # parts of different versions do not fit together
}
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
FOLDER = files("isogloss.serve") / "page"
INDEX = FOLDER / "index.html"
PARTS = {
    **{file.name: file for file in FOLDER.iterdir() if PurePath(file.name).suffix in TYPES and file.name != INDEX.name},
    "report.css": files("isogloss.report") / "templates" / "page.css",  # the page looks like the reports
}

router = APIRouter(include_in_schema=False)


@router.get("/")
def page() -> Response:
    """The page."""
    return _answer(INDEX)


@router.get("/page/{name}")
def part(name: str) -> Response:
    """A file that the page needs: `/page/page.js` is `serve/page/page.js`."""
    if name not in PARTS:
        raise HTTPException(404, "there is no such file")
    return _answer(PARTS[name])


def _answer(file: Traversable) -> Response:
    return Response(file.read_bytes(), media_type=TYPES[PurePath(file.name).suffix], headers=HEADERS)
