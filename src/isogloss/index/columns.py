"""Which column holds the ids, the texts, the vectors: an option of the address says it, or only one can be meant."""

from collections.abc import Sequence

from isogloss.errors import DataError
from isogloss.index.address import Address

ID_NAMES = ("id", "_id", "doc_id", "docid", "document_id", "uuid", "key")
TEXT_NAMES = ("text", "document", "content", "page_content", "body", "passage", "chunk", "sentence")


def chosen_column(address: Address, option: str, candidates: Sequence[str], known: Sequence[str], what: str) -> str:
    """The column that an option names, or the only candidate that can be meant; "" if there is none.

    Of the candidates the first name in `known` counts, then the only other one among `known`, then the only one at all.
    """
    if option in (address.options or {}):
        name = address.option(option)
        if name and name not in candidates:
            raise DataError(f"{address.shown}: there is no column {name!r} of {what}", hint=f"available: {_listed(candidates)}")
        return name
    if known and known[0] in candidates:
        return known[0]
    likely = [name for name in candidates if name.lower() in known] or list(candidates)
    if len(likely) > 1:
        raise DataError(
            f"{address.shown}: which column holds the {what}? candidates: {_listed(likely)}", hint=f"name it: ?{option}=NAME"
        )
    return likely[0] if likely else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))[:200] or "none"
