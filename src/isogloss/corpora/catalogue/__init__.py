"""Corpora by name: which there are, under what licence, and how each comes onto the disk.

`entries` is what is known without asking anybody (the facts are in entries.toml), `get` fetches one corpus in one pair of
languages and keeps it. Behind them, `opus` and `hub` ask the two services that have most of it, `wikipedia` makes a
dictionary of article titles, `repack` turns odd layouts into plain columns, and `download` brings bytes into a file.
"""
