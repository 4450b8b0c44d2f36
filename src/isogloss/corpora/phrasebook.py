"""The shipped training data, both CC0.

The phrasebook: 500 everyday-to-technical English sentences in twelve languages, each with an id, a domain and a fixed split
(400 train, 100 test). It is enough for a model that already knows the languages, and its test rows are in no other data set.

The reader: about 11,000 more English sentences without translations, a quarter of them questions. 400 points are too few to
learn a space of 384 dimensions; the teacher can embed any English sentence, so these help every language.
"""

from importlib.resources import files
from pathlib import Path

NAME, READER = "phrasebook", "reader"
LANGUAGES = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr", "zh")
DOMAINS = ("everyday", "news", "travel", "health", "shopping", "support", "law", "science", "smalltalk")


def path() -> Path:
    """The TSV file, with the header `id domain split en ar de …`."""
    return Path(str(files("isogloss.corpora") / "phrasebook.tsv"))


def reader_path() -> Path:
    """The text file, one English sentence per line."""
    return Path(str(files("isogloss.corpora") / "reader.txt"))
