"""The settings of search, mining and scoring."""

from pathlib import Path
from typing import Literal

from isogloss.config.settings import Settings, setting, share

Margin = Literal["ratio", "distance", "absolute"]
Strategy = Literal["max", "one-to-one", "intersection", "forward", "backward"]
Search = Literal["exact", "auto", "approximate", "cells", "hnsw", "ivf-pq"]


class SearchSettings(Settings):
    """How to search for nearest neighbors. Only `search` and `recall` can change what is found."""

    device: str = setting("auto", "Where to search: auto, cuda or cpu.")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = setting(
        "auto", "Precision of the first pass; the cosines of what is found are exact."
    )
    memory: int = setting(0, "Bytes to use beside the vectors and the result (on CUDA: of the card); 0: a default.", at_least=0)
    block: int = setting(0, "Rows and columns multiplied at once; 0: what fits.", at_least=0)
    normalize: bool = setting(True, "Scale vectors to length 1 first.")
    folder: Path | str | None = setting(None, "Folder of unfinished work, where an interrupted search continues.")
    search: Search = setting("exact", "Exact, approximate (or one of its kinds), or auto: exact if that takes minutes.")
    recall: float = setting(0.97, "Share of neighbors that an approximate search must find.", above=0.0, at_most=1.0)


class ScoringSettings(Settings):
    """How to score given pairs."""

    k: int = setting(4, "Nearest neighbors that the margin compares with.", at_least=1)
    margin: Margin = setting("ratio", "How a pair is scored; absolute is plain cosine.")
    threshold: str = setting("none", 'Minimum score of a pair: "none" keeps all, "auto" aims at `precision`, or a number.')
    precision: float = setting(0.9, "Share of correct pairs that threshold auto aims at.", above=0.0, below=1.0)
    memory: int = setting(0, "Bytes to use beside the vectors; 0: a default.", at_least=0)
    device: str = setting("auto", "Where to run: auto, cuda or cpu.")
    cache: Path | str | None = setting(None, "Folder of cached embeddings; None: the user's cache folder.")
    folder: Path | str | None = setting(None, "Folder of unfinished work, where an interrupted run continues.")


class MiningSettings(ScoringSettings):
    """How to mine. Languages are needed to check the language of sentences and to split documents."""

    threshold: str = setting("auto", 'Minimum score of a pair: "auto" aims at `precision`, "gold:FILE" at F1, or a number.')
    strategy: Strategy = setting("max", "Which candidates become pairs.")
    source_language: str = setting("", "Language of the source side: sentences in other languages are dropped.")
    target_language: str = setting("", "Language of the target side.")
    with_ids: bool = setting(False, "Lines are id<TAB>sentence, as in BUCC.")
    documents: bool = setting(False, "Lines are paragraphs: split them into sentences.")
    min_language: float = share(0.5, "Minimum confidence of language identification; 0: no check.")
    keep_identical: bool = setting(False, "Keep sentences that are the same on both sides.")
    search: Search = setting("auto", "Exact, approximate (or one of its kinds), or auto: exact if that takes minutes.")
    recall: float = setting(0.97, "Share of neighbors that an approximate search must find.", above=0.0, at_most=1.0)
