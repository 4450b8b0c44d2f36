"""Smaller models: fewer layers, shorter embeddings."""
