"""Artefacts that others can load."""
