"""Translation language modeling: masked tokens of a sentence and its translation are predicted from both."""

from isogloss.runs.stages.mlm import train as train
