"""One file per layout of parallel data. Each has a `blocks(source, faults)` that streams what `reading/blocks.py` says.

Where lines are many and simple (tsv, moses, muse, parquet), whole blocks are taken apart at once by Arrow and numpy, and
`assemble` puts them together; where the syntax is richer (csv, jsonl, tmx, po, mo, freedict), `records` gathers pairs that
come one by one.
"""
