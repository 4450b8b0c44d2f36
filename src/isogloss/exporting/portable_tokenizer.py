"""Rewrite `tokenizer.json` with parts that every reader of that format knows: transformers.js has no `Nmt` normalizer.

`Nmt` is SentencePiece's way of cleaning text: it drops control characters, and turns other white space and invisible characters
into spaces. Two replacements by regular expressions do the same.
"""

import json
from pathlib import Path
from typing import Any

DROPPED = r"[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]"
SPACES = r"[\u0009\u000A\u000C\u000D\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]"


def make_portable(path: Path) -> None:
    """Replace `Nmt` in a tokenizer.json, in place; the tokens of any text stay the same."""
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    steps = _steps(tokenizer.get("normalizer"))
    if any(step["type"] == "Nmt" for step in steps):
        plain = [other for step in steps for other in (_nmt() if step["type"] == "Nmt" else [step])]
        tokenizer["normalizer"] = {"type": "Sequence", "normalizers": plain}
        path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def _steps(normalizer: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The normalizers of a sequence, and of sequences in it."""
    if normalizer is None:
        return []
    if normalizer["type"] != "Sequence":
        return [normalizer]
    return [step for one in normalizer["normalizers"] for step in _steps(one)]


def _nmt() -> list[dict[str, Any]]:
    pairs = ((_characters(DROPPED), ""), (_characters(SPACES), " "))
    return [{"type": "Replace", "pattern": {"Regex": pattern}, "content": content} for pattern, content in pairs]


def _characters(pattern: str) -> str:
    """The characters themselves: the two kinds of regular expressions escape them differently."""
    return pattern.encode("ascii").decode("unicode_escape")
