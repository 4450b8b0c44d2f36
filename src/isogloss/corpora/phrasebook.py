"""What isogloss ships to learn from: the phrasebook and the reader, both written for it, CC0.

The phrasebook: 500 everyday-to-technical English sentences in twelve languages.
It is small on purpose: enough to teach a model that already knows the languages where the teacher puts a sentence, and
to measure it on rows that no other data set has. Rows have an id, a domain and a fixed split (400 train, 100 test).

The reader: 8,000 and some further English sentences without translations. Four hundred places are too few to learn a space of
384 dimensions from; the teacher knows where any English sentence belongs, so English alone helps every language.
"""

from importlib.resources import files
from pathlib import Path

NAME, READER = "phrasebook", "reader"
LANGUAGES = ("ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "tr", "zh")
DOMAINS = ("everyday", "news", "travel", "health", "shopping", "support", "law", "science", "smalltalk")


def path() -> Path:
    """Where the file lies: an N-way TSV with the header `id domain split en ar de …`."""
    return Path(str(files("isogloss.corpora") / "phrasebook.tsv"))


def reader_path() -> Path:
    """Where the reader lies: one English sentence a line."""
    return Path(str(files("isogloss.corpora") / "reader.txt"))
