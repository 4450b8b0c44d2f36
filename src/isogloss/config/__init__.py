"""The schema of recipes: settings with types, ranges, defaults and descriptions, checked when constructed."""

from isogloss.config.recipe import Recipe
from isogloss.config.sections import (
    AddingSettings,
    AddSettings,
    BalanceSettings,
    BridgeSettings,
    CleaningSettings,
    Engine,
    EvaluationSettings,
    LeakSettings,
    LossSettings,
    Optimizer,
    OutputSettings,
    PairsSettings,
    Precision,
    Schedule,
    StudentSettings,
    TeacherSettings,
    TrainingSettings,
)
from isogloss.config.settings import Settings, as_dict, setting
from isogloss.config.stages import Stage

__all__ = [
    "AddSettings",
    "AddingSettings",
    "BalanceSettings",
    "BridgeSettings",
    "CleaningSettings",
    "Engine",
    "EvaluationSettings",
    "LeakSettings",
    "LossSettings",
    "Optimizer",
    "OutputSettings",
    "PairsSettings",
    "Precision",
    "Recipe",
    "Schedule",
    "Settings",
    "Stage",
    "StudentSettings",
    "TeacherSettings",
    "TrainingSettings",
    "as_dict",
    "setting",
]
