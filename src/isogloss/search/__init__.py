"""Nearest-neighbour search, exact and approximate, in bounded memory."""
