"""Make text safe to print and store: no control characters, no keys or passwords.

A file name can contain terminal escapes, a URL can contain a password. Every error and everything the command line prints goes
through `printable`; every URL that is shown or stored goes through `masked`.
"""

import re
from typing import Any

MASK = "***"
# C0 and C1 controls, DEL, line and paragraph separators, bidirectional overrides and isolates, halves of surrogate pairs
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LAYOUT = "\n\t"
# user and password; a password with an unescaped / is still a password
_USER = re.compile(
    r"(?<=://)(?:[^\s/?#\"'<>:@\[]{0,500}:(?!\d{0,6}(?:[/?#\s\"'<>]|$))[^\s\"'<>]{0,1000}|[^\s/?#\"'<>]{0,1000})@"
)
_PARAMETER = re.compile(r"(?<=[?&;#])([\w.%-]{1,80})=([^&;#\s\"'<>]+)")
_SECRET = re.compile(r"key|token|secret|passw|pwd|signature|credential|auth|\b(?:sig|pass)\b", re.IGNORECASE)
_LOCAL = re.compile(r"~|\.{1,2}[\\/]|\.{1,2}$|/|[A-Za-z]:[\\/]|file:/")
_KINDS_OF_FOLDERS, _COMMAND = ("onnx:", "openvino:"), "cmd:"  # names of models
HIDDEN = "…"
_BEARER = re.compile(r"(\bBearer\s+)[^\s\"'<>]+")


def printable(text: str, layout: bool = False) -> str:
    """Escape control characters; with `layout`, line breaks and tabs are kept."""
    return _CONTROLS.sub(lambda found: found[0] if layout and found[0] in _LAYOUT else _escaped(found[0]), text)


def json_printable(text: str) -> str:
    """JSON text with the same meaning and no control characters except line breaks."""
    return _CONTROLS.sub(lambda found: found[0] if found[0] in _LAYOUT else f"\\u{ord(found[0]):04x}", text)


def masked(text: str) -> str:
    """Replace passwords and keys in URLs with ***: `https://***@host`, `?api_key=***`."""
    text = _USER.sub(f"{MASK}@", text) if "://" in text and "@" in text else text
    text = _PARAMETER.sub(_parameter, text) if "=" in text else text
    return _BEARER.sub(rf"\g<1>{MASK}", text) if "Bearer" in text else text


def _parameter(found: re.Match[str]) -> str:
    name, value = found.groups()
    after = value[len(value.rstrip(".,:)]")) :]  # punctuation after a URL is not part of it
    return f"{name}={MASK}{after}" if _SECRET.search(name) else found[0]


def without_folders(name: str) -> str:
    """A name for text that is published: of a path on this machine (`/home/me/en-de.tsv`, `~/x`, `../x`) the last part.

    Other names stay, also relative paths such as `data/en-de.tsv`, which say where somebody else would put the file.
    """
    if name.startswith(_COMMAND):
        return _COMMAND + " ".join(map(without_folders, name.removeprefix(_COMMAND).split(" ")))
    kind = next((one for one in _KINDS_OF_FOLDERS if name.startswith(one)), "")
    place = name.removeprefix(kind)
    if not _LOCAL.match(place) or not place.strip("\\/"):
        return name
    last = re.split(r"[\\/]", place.rstrip("\\/"))[-1]
    return kind + (last if last.strip(".~") else HIDDEN)


def masked_values(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Plain data with every string in it masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: masked_values(inner) for key, inner in value.items()}
    return [masked_values(inner) for inner in value] if isinstance(value, list | tuple) else value


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
