"""`isogloss index check`: whether a student can serve an index that its teacher made."""
