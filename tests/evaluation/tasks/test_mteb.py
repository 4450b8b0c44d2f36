"""MTEB on a small task made here: its protocol is met, and its score is what our own STS gives."""

import sys
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.metrics import cosines, spearman
from isogloss.evaluation.tasks.mteb import measure
from isogloss.models.encoder import load
from made_up_sets import GERMAN


def test_without_the_package(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load(str(models / "teacher"))
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(DataError, match="mteb is not installed") as caught:
        measure(encoder, ["STS17"], encoder.encode)
    assert caught.value.hint == "pip install mteb"


@pytest.mark.filterwarnings("default")
def test_a_small_task(models: Path) -> None:
    mteb = pytest.importorskip("mteb")
    datasets = pytest.importorskip("datasets")
    left, right = [english for english, _ in GERMAN], [german for _, german in GERMAN[1:] + GERMAN[:1]]
    gold = [float(place % 5) for place in range(len(GERMAN))]
    rows = {"sentence1": left, "sentence2": right, "score": gold}
    metadata = mteb.TaskMetadata(
        dataset={"path": "made/here", "revision": "1"},
        name="MadeHere",
        description="A small set of pairs.",
        type="STS",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
    )

    class MadeHere(pytest.importorskip("mteb.abstasks.sts").AbsTaskSTS):  # type: ignore[misc]
        def load_data(self, *_: object, **__: object) -> None:
            self.dataset = datasets.DatasetDict({"test": datasets.Dataset.from_dict(rows)})
            self.data_loaded = True

    MadeHere.metadata = metadata
    encoder = load(str(models / "teacher"))
    (found,) = measure(encoder, [MadeHere()], encoder.encode)
    wanted = spearman(cosines(encoder.encode(left), encoder.encode(right)), gold)
    assert found.table == "MTEB MadeHere" and found.sample.value() == pytest.approx(wanted, abs=1e-5)
    assert np.isfinite(found.others["cosine_pearson"])
    with pytest.raises(DataError, match="MTEB has no task Nonsense17"):
        measure(encoder, ["Nonsense17"], encoder.encode)
