"""A text in, a vector out."""
