"""Encoders that are not sentence-transformers models: one file per kind, opened by name in `open`."""
