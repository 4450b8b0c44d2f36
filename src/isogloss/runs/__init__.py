"""Whole runs: from a recipe to a measured, saved model, and the record of how it came about."""
