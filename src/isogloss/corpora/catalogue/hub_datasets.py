"""The model hub's data sets: a folder of Parquet files a language pair (`en-de/train-00000-of-00001.parquet`).

The hub's own package knows who is logged in and how addresses are made. Its documented API is then asked directly, and
bytes come through our `download`: one way to resume, to check (the hub tells every file's checksum), to wait and to show
progress for all services. `$HF_ENDPOINT` names another address that speaks the same.
"""

import os
import re
import urllib.parse
from dataclasses import dataclass

from isogloss.corpora.catalogue.entries import Languages, spellings
from isogloss.corpora.catalogue.retries import NotThere, Patience, ask
from isogloss.errors import DataError
from isogloss.shapes import COUNT, NOTHING, SHA256, TEXT, Either, Misfit, check
from isogloss.web import checked_key

ENDPOINT = "https://huggingface.co"
ANSWER = {
    "sha": TEXT,
    "siblings": [{"rfilename": TEXT, "size?": Either(COUNT, NOTHING), "lfs?": Either({"sha256": SHA256}, NOTHING)}],
}
_TRAIN = re.compile(r"(?P<pair>[^/]+)/train(?:-(?P<shard>\d+-of-\d+))?\.parquet")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One Parquet file of a data set, at a fixed commit."""

    path: str
    url: str
    pair: str
    shard: str  # "00001-of-00003", empty if there is but one
    commit: str
    size: int | None
    sha256: str | None


def find(repo: str, languages: Languages, revision: str = "", patience: Patience | None = None) -> list[HubFile]:
    """The training files of a pair; a data set's own dev files are left where they are."""
    if _is_true(os.environ.get("HF_HUB_OFFLINE")):
        raise DataError(f"the hub is not asked for {repo}: HF_HUB_OFFLINE is set", hint="unset HF_HUB_OFFLINE, or take OPUS")
    files = _files(repo, revision or "main", patience or Patience())
    there = {file.pair for file in files}
    if best := next((pair for pair in _in_order_of_liking(languages) if pair in there), ""):
        found = sorted((file for file in files if file.pair == best), key=lambda file: file.path, reverse=True)
        return list({file.shard: file for file in found}.values())[::-1]  # one file a shard, however it is written
    pairs = sorted(pair for pair in there if "-" in pair)
    if not pairs:
        raise DataError(f"{repo} has no folder of Parquet files a language pair", hint=f"see {ENDPOINT}/datasets/{repo}")
    raise DataError(f"{repo} has no {'-'.join(languages)}", hint=f"it has {', '.join(pairs)}")


def _in_order_of_liking(languages: Languages) -> list[str]:
    """The names a pair's folder may have, the best first: of several only one is taken, as they would share a name here.

    The codes as asked for come first, in either order (`en-zh`, `zh-en`), then what is spelled ever less like them.
    """
    one, other = (list(enumerate(spellings(code))) for code in languages)
    names = [(a + b, turned, pair) for a, x in one for b, y in other for turned, pair in enumerate((f"{x}-{y}", f"{y}-{x}"))]
    return [pair for _, _, pair in sorted(names)]


def token() -> str:
    """The key of whoever is logged in to the hub, empty if nobody is: public data needs none."""
    from huggingface_hub import get_token

    return checked_key(get_token() or "", "HF_TOKEN")


def _files(repo: str, revision: str, patience: Patience) -> list[HubFile]:
    from huggingface_hub import hf_hub_url

    endpoint = (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
    asked = f"{endpoint}/api/datasets/{repo}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
    try:
        told = check(ask(asked, patience, token()), ANSWER)
        files = []
        for one in told["siblings"]:
            if match := _TRAIN.fullmatch(one["rfilename"]):
                url = hf_hub_url(repo, one["rfilename"], repo_type="dataset", revision=told["sha"], endpoint=endpoint)
                large = one.get("lfs") or {}
                shard = match["shard"] or ""
                shard = "" if shard.endswith("-of-00001") else shard
                size, sha256 = one.get("size"), large.get("sha256")
                files.append(HubFile(one["rfilename"], url, match["pair"], shard, told["sha"], size, sha256))
    except NotThere as error:
        raise DataError(f"the hub has no data set {repo} at {revision}", hint="check its name on the hub") from error
    except Misfit as error:
        raise DataError(
            f"{asked}: the answer is not what the hub says ({error})", hint="is HF_ENDPOINT the right address?"
        ) from error
    return files


def _is_true(told: str | None) -> bool:
    return (told or "").strip().upper() in ("1", "ON", "YES", "TRUE")
