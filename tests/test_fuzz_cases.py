"""A few thousand of the cases of benchmarks/fuzz.py. What it found has tests of its own, where it was found."""

import logging
from collections.abc import Iterator

import pytest

from fuzz_targets import Try, attempt, targets

EACH = 80  # cases of a target


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Try]]:
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        yield targets(tmp_path_factory.mktemp("fuzz"), patch.setenv)
    logging.disable(logging.NOTSET)


def test_every_case_is_a_result_or_a_sentence(every: dict[str, Try]) -> None:
    found = {(name, number): attempt(name, target, number) for name, target in every.items() for number in range(EACH)}
    assert len(found) > 2000
    assert not {case: said for case, said in found.items() if said}


def test_a_finding_is_one() -> None:
    def broken(_random: object) -> None:
        raise KeyError("no")

    assert "KeyError" in attempt("x", broken, 1)
