"""Losses: one formula per file."""
