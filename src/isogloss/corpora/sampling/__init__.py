"""How much of each corpus and language an epoch holds."""
