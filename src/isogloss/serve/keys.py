"""API keys: several, from a file or the environment, compared in constant time, never shown."""

import hashlib
import hmac
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from isogloss.errors import IsoglossError
from isogloss.web import checked_key

logger = logging.getLogger(__name__)

VARIABLE = "ISOGLOSS_SERVE_KEYS"
BEARER = "bearer "


class ApiKeys:
    """The keys of which a request must have one; without any, every request is answered. Only their hashes are kept."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        """Whether a key is needed."""
        return bool(self._digests)

    def admit(self, authorization: str) -> bool:
        """Whether the Authorization header has one of the keys. Takes equally long for every key, right or wrong."""
        given = _digest(authorization[len(BEARER) :].strip() if authorization[: len(BEARER)].lower() == BEARER else "")
        found = [hmac.compare_digest(given, digest) for digest in self._digests]  # all of them, whichever fits
        return any(found) or not self._digests


def read_keys(file: str) -> ApiKeys:
    """The keys of a file (one per line; lines that start with # are comments) and of $ISOGLOSS_SERVE_KEYS (with commas)."""
    keys = [key for part in os.environ.get(VARIABLE, "").split(",") if (key := checked_key(part, VARIABLE))]
    if file:
        keys += _from_file(Path(file).expanduser())
    return ApiKeys(dict.fromkeys(keys))


def _from_file(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise IsoglossError(f"{path}: the API keys cannot be read ({reason})", hint="write one key per line") from error
    keys = [key for line in lines if not line.lstrip().startswith("#") and (key := checked_key(line, str(path)))]
    if not keys:
        raise IsoglossError(f"{path}: there is no API key in this file", hint="write one key per line")
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        logger.warning("%s has API keys, and other users of this machine may read it: chmod 600 it", path)
    return keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
