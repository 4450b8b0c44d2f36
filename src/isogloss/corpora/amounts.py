"""A number with its noun, as a person says it."""


def amount(number: int, one: str, many: str = "") -> str:
    """`amount(1, "line")` is "1 line", `amount(1204, "corpus", "corpora")` "1,204 corpora"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
