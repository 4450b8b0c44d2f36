"""Metrics for other eyes: what a run tells reaches a real tracker of accelerate's, and what is not there is said."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
from accelerate import tracking

from isogloss.errors import RecipeError
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.runs.trackers import Trackers
from tiny import tiny_recipe

HEARD: list[tuple[str, Any]] = []


class Listener(tracking.GeneralTracker):  # type: ignore[misc]
    """A tracker as anybody may register one with accelerate; it remembers what it was told."""

    name: ClassVar[str] = "listener"
    requires_logging_directory: ClassVar[bool] = True

    def __init__(self, run_name: str, logging_dir: str, **_options: Any) -> None:  # noqa: ANN401
        super().__init__()
        HEARD.append(("start", (run_name, logging_dir)))

    @property
    def tracker(self) -> object:
        return HEARD

    def store_init_configuration(self, values: dict[str, Any]) -> None:
        HEARD.append(("settings", values))

    def log(self, values: dict[str, float], step: int | None = None, **_options: Any) -> None:  # noqa: ANN401
        HEARD.append(("values", (step, values)))

    def finish(self) -> None:
        HEARD.append(("finish", None))


@pytest.fixture
def listener() -> list[tuple[str, Any]]:
    if not hasattr(tracking, "register_tracker_class"):
        pytest.skip("this accelerate takes no trackers of others by name")
    if "listener" not in tracking.LOGGER_TYPE_TO_CLASS:
        tracking.register_tracker_class(Listener)
    HEARD.clear()
    return HEARD


def test_a_run_tells_its_tracker_everything(models: Path, tsv: Path, tmp_path: Path, listener: list[tuple[str, Any]]) -> None:
    steps: list[Step] = []
    run(tiny_recipe(models, tsv, tmp_path / "run", "training.trackers=listener", "training.dev_share=0.2"), steps.append)
    assert listener[0] == ("start", ("tiny", str(tmp_path / "run" / "trackers")))
    settings = dict(listener)["settings"]
    assert settings["training.epochs"] == 3 and settings["training.learning_rate"] == 1e-3 and settings["name"] == "tiny"
    assert all(isinstance(value, int | float | str | bool) for value in settings.values()), "all that any tracker takes"
    told = {step: values for kind, (step, values) in ((kind, what) for kind, what in listener if kind == "values")}
    sent = {int(step.values["step"]): step.values for step in steps if step.values}
    assert told.keys() == sent.keys() and len(told) >= 3
    for number, values in told.items():
        assert values == {f"distill/{name}": value for name, value in sent[number].items() if name != "step"}
        assert {"distill/loss", "distill/mse", "distill/learning_rate"} <= values.keys() or not number
    assert any("distill/dev_retrieval" in values for values in told.values())
    assert listener[-1] == ("finish", None) and [kind for kind, _ in listener].count("finish") == 1
    assert (tmp_path / "run" / "metrics.jsonl").exists() and any(step.stage == "pairs" for step in steps), "others hear it too"


def test_trackers_are_finished_once_at_the_end(
    models: Path, tsv: Path, tmp_path: Path, listener: list[tuple[str, Any]]
) -> None:
    trackers = Trackers(tiny_recipe(models, tsv, tmp_path, "training.trackers=listener"), tmp_path, lambda _: None)
    trackers(Step("train", 1, 2, "pairs", values={"step": 1.0, "loss": 0.5}))
    trackers(Step("train", 2, 2, "pairs"))
    assert listener[-1][0] == "values"
    trackers.finish()
    assert listener[-2:] == [("values", (1, {"train/loss": 0.5})), ("finish", None)]


def test_a_tracker_that_nobody_knows(models: Path, tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        Trackers(tiny_recipe(models, tsv, tmp_path, "training.trackers=abacus"), tmp_path, lambda _: None)
    assert caught.value.message == "training.trackers: abacus is not known"
    assert "tensorboard, " in caught.value.hint and "pip install" in caught.value.hint


@pytest.mark.skipif(find_spec("aim") is not None, reason="aim is installed here")
def test_a_tracker_that_is_not_installed(models: Path, tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="aim is not installed here") as caught:
        Trackers(tiny_recipe(models, tsv, tmp_path, "training.trackers=aim"), tmp_path, lambda _: None)
    assert caught.value.hint == "pip install aim"
