"""Text as arrays, so that cleaning needs no Python loop over sentences."""
