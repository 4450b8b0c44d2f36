"""Data sets of the Hugging Face hub with one folder of Parquet files per language pair (`en-de/train-00000-of-00001.parquet`).

huggingface_hub gives the token and the URLs; files come through our `download`, so that resuming, checksums, retries and
progress are the same for all services. `$HF_ENDPOINT` names another server with the same API.
"""

import os
import re
import urllib.parse
from dataclasses import dataclass

from isogloss.corpora.catalogue.entries import Languages, spellings
from isogloss.corpora.catalogue.retries import PATIENT, NotFound, Patience, ask
from isogloss.errors import DataError
from isogloss.shapes import COUNT, NOTHING, SHA256, TEXT, Misfit, check
from isogloss.web import checked_key

ENDPOINT = "https://huggingface.co"
ANSWER = {
    "sha": TEXT,
    "siblings": [{"rfilename": TEXT, "size?": (COUNT, NOTHING), "lfs?": ({"sha256": SHA256}, NOTHING)}],
}
_TRAIN = re.compile(r"(?P<pair>[^/]+)/train(?:-(?P<shard>\d+-of-\d+))?\.parquet")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One Parquet file of a data set, at a fixed commit."""

    path: str
    url: str
    pair: str
    shard: str  # "00001-of-00003", empty if there is only one
    commit: str
    size: int | None
    sha256: str | None


def find(repo: str, languages: Languages, revision: str = "", patience: Patience = PATIENT) -> list[HubFile]:
    """The training files of a pair."""
    if _is_true(os.environ.get("HF_HUB_OFFLINE")):
        raise DataError(f"cannot fetch {repo}: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE, or use OPUS")
    files = _files(repo, revision or "main", patience)
    there = {file.pair for file in files}
    if best := next((pair for pair in _folder_names(languages) if pair in there), ""):
        found = sorted((file for file in files if file.pair == best), key=lambda file: file.path, reverse=True)
        return list({file.shard: file for file in found}.values())[::-1]  # one file per shard
    pairs = sorted(pair for pair in there if "-" in pair)
    if not pairs:
        raise DataError(f"{repo} has no folder of Parquet files per language pair", hint=f"see {ENDPOINT}/datasets/{repo}")
    raise DataError(f"{repo} has no {'-'.join(languages)}", hint=f"it has {', '.join(pairs)}")


def _folder_names(languages: Languages) -> list[str]:
    """The possible names of a pair's folder, the best first: the requested codes in either order, then other spellings."""
    one, other = (list(enumerate(spellings(code))) for code in languages)
    names = [(a + b, turned, pair) for a, x in one for b, y in other for turned, pair in enumerate((f"{x}-{y}", f"{y}-{x}"))]
    return [pair for _, _, pair in sorted(names)]


def token() -> str:
    """The token of the user who is logged in to the hub, or ""; public data needs none."""
    from huggingface_hub import get_token

    return checked_key(get_token() or "", "HF_TOKEN")


def _files(repo: str, revision: str, patience: Patience) -> list[HubFile]:
    from huggingface_hub import hf_hub_url

    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    asked = f"{endpoint}/api/datasets/{repo}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    try:
        answer = check(ask(asked, patience, token()), ANSWER)
        files = []
        for one in answer["siblings"]:
            if match := _TRAIN.fullmatch(one["rfilename"]):
                url = hf_hub_url(repo, one["rfilename"], repo_type="dataset", revision=answer["sha"], endpoint=endpoint)
                shard = (match["shard"] or "").removesuffix("00000-of-00001")
                sha256 = (one.get("lfs") or {}).get("sha256")
                files.append(HubFile(one["rfilename"], url, match["pair"], shard, answer["sha"], one.get("size"), sha256))
    except NotFound as error:
        raise DataError(f"the hub has no data set {repo} at {revision}", hint="check its name on the hub") from error
    except Misfit as error:
        raise DataError(f"{asked}: unexpected answer ({error})", hint="is HF_ENDPOINT the right address?") from error
    return files


def _is_true(value: str | None) -> bool:
    return (value or "").strip().upper() in ("1", "ON", "YES", "TRUE")
