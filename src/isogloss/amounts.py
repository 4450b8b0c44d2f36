"""Format numbers for people: counts with a noun, durations, sizes."""

from collections.abc import Sequence

EXACT_BELOW = 600  # seconds: longer durations are shown in minutes


def amount(number: int, one: str, many: str = "") -> str:
    """`amount(1, "line")` is "1 line", `amount(1204, "corpus", "corpora")` "1,204 corpora"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def duration(seconds: float) -> str:
    """`duration(45)` is "45 s", `duration(260)` "4 min 20 s", `duration(1575)` "26 min", `duration(7500)` "2 h 5 min"."""
    whole, minutes, hours = round(seconds), round(seconds / 60), round(seconds / 3600)
    if whole < 60:
        return f"{whole} s"
    if whole < EXACT_BELOW:
        return _two_units(whole, 60, "min", "s")
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return _two_units(minutes, 60, "h", "min")
    return _two_units(hours, 24, "d", "h")


def _two_units(number: int, per_large: int, large: str, small: str) -> str:
    whole, rest = divmod(number, per_large)
    return f"{whole} {large}" + (f" {rest} {small}" if rest else "")


def size(count: int) -> str:
    """Bytes: `size(1536)` is "1.5 KiB"."""
    number = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1024:
            return f"{number:,.0f} bytes" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1024
    return f"{number:,.1f} GiB"
