"""Translation language modelling: masked tokens of a sentence and its translation, predicted from both."""

from isogloss.runs.stages.mlm import train as train
