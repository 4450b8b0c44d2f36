"""Building indexes: documents in, vectors with ids and texts out."""
