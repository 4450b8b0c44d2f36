"""Tasks: what a batch is and what its loss is, one file per task."""
