"""Evidence: what a model can do, on rows it never saw."""
