"""Open any index by its address; `address` has the forms."""

from importlib import import_module
from typing import Any

from isogloss.index.address import FILES, Address, parse_address
from isogloss.index.build_record import refuse_damaged
from isogloss.index.unfinished import refuse_half_moved
from isogloss.index.vector_index import VectorIndex

# Kinds of indexes: module and function.
KINDS = {
    "npy": "array_files:open_array",
    "safetensors": "array_files:open_tensor",
    "parquet": "parquet_file:open_parquet",
    "faiss": "faiss_file:open_faiss",
    "postgresql": "postgres_table:open_postgres",
    "qdrant": "qdrant_collection:open_qdrant",
    "lancedb": "lance_table:open_lance",
    "opensearch": "search_server:open_search_server",
    "elasticsearch": "search_server:open_search_server",
}


def open_index(address: str) -> VectorIndex:
    """Open an index to search it: a file, or a table or collection of a database.

        open_index("docs.npy").search(ig.embed(model, ["Where is the station?"]), k=10)

    Databases need their extra: isogloss[pgvector], isogloss[qdrant], isogloss[lancedb]; faiss needs isogloss[mining].
    """
    parsed = parse_address(address)
    if parsed.kind in FILES.values():
        refuse_half_moved(parsed.path, parsed.shown)
        refuse_damaged(parsed.path, parsed.shown)
    opened: VectorIndex = _function(parsed)(parsed)
    return opened


def _function(address: Address) -> Any:  # noqa: ANN401 - of a module that is named by its text
    module, _, name = KINDS[address.kind].partition(":")
    return getattr(import_module(f"isogloss.index.backends.{module}"), name)
