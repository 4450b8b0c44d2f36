"""The catalogue of corpora: what there is, under which license, and how to download it.

`entries` knows the corpora offline (entries.toml), `get` downloads one corpus in one language pair. `opus` and `hub_datasets`
query the two services that have most of them, `wikipedia` builds a dictionary of article titles, `repack` converts unusual
layouts to plain columns, `download` brings a URL into a file, and `retries` repeats failed requests.
"""
