"""The schema of recipes: settings with types, ranges, defaults and descriptions, validated when constructed."""

from isogloss.config.recipe import Recipe as Recipe
from isogloss.config.sections import (
    AddingSettings as AddingSettings,
)
from isogloss.config.sections import (
    AddSettings as AddSettings,
)
from isogloss.config.sections import (
    BalanceSettings as BalanceSettings,
)
from isogloss.config.sections import (
    BridgeSettings as BridgeSettings,
)
from isogloss.config.sections import (
    CleaningSettings as CleaningSettings,
)
from isogloss.config.sections import (
    Device as Device,
)
from isogloss.config.sections import (
    Engine as Engine,
)
from isogloss.config.sections import (
    EvaluationSettings as EvaluationSettings,
)
from isogloss.config.sections import (
    LeakSettings as LeakSettings,
)
from isogloss.config.sections import (
    LossSettings as LossSettings,
)
from isogloss.config.sections import (
    Optimizer as Optimizer,
)
from isogloss.config.sections import (
    OutputSettings as OutputSettings,
)
from isogloss.config.sections import (
    PairsSettings as PairsSettings,
)
from isogloss.config.sections import (
    Pooling as Pooling,
)
from isogloss.config.sections import (
    Precision as Precision,
)
from isogloss.config.sections import (
    Schedule as Schedule,
)
from isogloss.config.sections import (
    StudentSettings as StudentSettings,
)
from isogloss.config.sections import (
    TeacherSettings as TeacherSettings,
)
from isogloss.config.sections import (
    TrainingSettings as TrainingSettings,
)
from isogloss.config.sections import (
    Trim as Trim,
)
from isogloss.config.sections import (
    VocabularyKind as VocabularyKind,
)
from isogloss.config.settings import Settings as Settings
from isogloss.config.settings import as_dict as as_dict
from isogloss.config.settings import setting as setting
from isogloss.config.stages import Stage as Stage
