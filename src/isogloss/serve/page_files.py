"""The page at `/`: files of the package, with a policy that lets them load nothing from elsewhere."""

from importlib.resources import files

from fastapi import APIRouter, Response
from starlette.exceptions import HTTPException

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"

router = APIRouter(include_in_schema=False)


@router.get("/")
def page() -> Response:
    """The page."""
    return part(INDEX)


@router.get("/page/{name}")
def part(name: str) -> Response:
    """A file that the page needs: `/page/page.js` is `serve/page/page.js`."""
    for file in files("isogloss.serve").joinpath("page").iterdir():
        if file.name == name and (kind := TYPES.get(name[name.rfind(".") :])):
            return Response(file.read_bytes(), media_type=kind, headers=HEADERS)
    raise HTTPException(404, "there is no such file")
