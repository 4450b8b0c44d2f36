"""Text as arrays: what cleaning needs to know of a million sentences without a Python loop over them."""
