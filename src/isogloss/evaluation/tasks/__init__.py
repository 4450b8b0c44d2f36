"""Evaluation tasks: one file per kind."""
