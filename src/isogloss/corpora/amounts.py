"""A number with its noun or unit, as a person says it."""


def amount(number: int, one: str, many: str = "") -> str:
    """`amount(1, "line")` is "1 line", `amount(1204, "corpus", "corpora")` "1,204 corpora"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def size(count: int) -> str:
    """Bytes: `size(1536)` is "1.5 KiB"."""
    number = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,.0f} bytes" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"
