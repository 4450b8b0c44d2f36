"""What holds an index: one module per kind of file or database."""
