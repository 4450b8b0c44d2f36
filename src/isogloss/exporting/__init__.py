"""A finished model in the forms that other programs load."""
