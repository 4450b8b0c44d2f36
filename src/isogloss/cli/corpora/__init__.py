"""`isogloss corpora`: one file per command."""
