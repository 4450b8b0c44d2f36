"""One loss a file: tensors in, a scalar out."""
