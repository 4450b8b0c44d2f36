"""The best form of a model that fits into a number of megabytes: `isogloss export MODEL --budget 60MB`."""
