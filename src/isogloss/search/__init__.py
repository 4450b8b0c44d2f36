"""The nearest-neighbour search of isogloss: exact and approximate, in bounded memory. Start at `neighbours`."""
