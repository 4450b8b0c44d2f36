"""Two heaps of sentences and a model in, translations of each other out: neighbours, margin, matching, thresholds."""
