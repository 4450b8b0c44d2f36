"""How pairs become token ids, row numbers and teacher embeddings on disk."""
