"""`isogloss index`: one file per command."""
