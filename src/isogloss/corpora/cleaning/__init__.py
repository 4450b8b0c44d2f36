"""Rules that decide which pairs are fit to train on: each gives a score, and a threshold that accepts it or not."""
