"""Vocabularies: trim, grow, learn, and measure how well they cover a language."""
