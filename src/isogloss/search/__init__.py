"""The nearest-neighbor search of isogloss: exact and approximate, in bounded memory. Start at `neighbors`."""
