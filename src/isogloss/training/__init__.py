"""Batches, the loop, and what it leaves on disk."""
