"""`.npy` and `.safetensors` files as indexes: ids and texts beside them, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isogloss import IsoglossError
from isogloss.index.open import open_index
from isogloss.types import FloatArray

ROWS = np.array([[1, 0], [0, 1], [3, 3]], dtype=np.float32)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    np.save(tmp_path / "docs.npy", ROWS)
    return tmp_path / "docs.npy"


def found(address: object, query: FloatArray = ROWS[:1], k: int = 3) -> list[str]:
    with open_index(str(address)) as index:
        return index.search(query, k)[0].ids


def test_without_labels_ids_are_row_numbers(docs: Path) -> None:
    assert found(docs) == ["0", "2", "1"]
    with open_index(str(docs)) as index:
        assert index.facts().has_texts is False and index.texts(["0"]) == {} and index.sample(2).texts is None


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("docs.jsonl", '{"id": "ä", "text": "eins"}\n{"_id": 7, "title": "T", "text": "b"}\n{"id": "c", "text": ""}', True),
        ("docs.tsv", "ä\teins\r\n7\tT b\nc\t\n", True),
        ("docs.ids.txt", "ä\n7\nc\n", False),
    ],
)
def test_labels_are_found_beside_the_vectors(docs: Path, name: str, content: str, texts: bool) -> None:
    docs.with_name(name).write_text(content, encoding="utf-8", newline="")
    assert found(docs) == ["ä", "c", "7"]
    with open_index(str(docs)) as index:
        assert index.facts().has_texts is texts
        expected = {"ä": "eins", "7": "T b", "c": ""} if texts else {}
        assert index.texts(["c", "7", "none", "ä", "7"]) == expected


def test_labels_can_be_named(docs: Path) -> None:
    other = docs.with_name("names and lines.txt")
    other.write_text("x\ny\nz\n", encoding="utf-8")
    assert found(f"{docs}?ids={other}") == ["x", "z", "y"]
    with open_index(f"{docs}?texts={other}&metric=l2") as index:
        assert index.facts().metric == "l2" and index.texts(["2", "0"]) == {"2": "z", "0": "x"}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("none.npy", "no such file"),
        ("docs.npy?metric=cosin", "metric 'cosin'"),
        ("docs.npy?metrics=cosine", "option 'metrics'"),
        ("docs.npy?ids=none.jsonl", "none.jsonl: no such file"),
        ("docs.npy?ids=short.txt", "1 line, but docs.npy has 3 rows"),
        ("docs.npy?ids=bad.jsonl", "bad.jsonl line 2: not the label of a row"),
        ("docs.npy?ids=docs.bin", "cannot be read"),
        ("text.npy", "not a readable .npy"),
        ("flat.npy", "float64 of shape (3,)"),
        ("docs.doc", "not the address of a vector index"),
        ("http://host:6333/#docs", "what kind of server"),
        ("qdrant:folder", "names no collection"),
    ],
)
def test_what_cannot_be_opened_is_explained(docs: Path, address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs.parent)
    Path("short.txt").write_text("x\n", encoding="utf-8")
    Path("bad.jsonl").write_text('{"id": "a"}\n{"text": "b"}\n{"id": "c"}\n', encoding="utf-8")
    Path("text.npy").write_text("1 2 3", encoding="utf-8")
    np.save("flat.npy", np.zeros(3))
    with pytest.raises(IsoglossError) as caught:
        open_index(address)
    assert said in caught.value.message and caught.value.hint


def test_queries_must_fit(docs: Path) -> None:
    with open_index(str(docs)) as index:
        with pytest.raises(IsoglossError, match="holds vectors of 2 dimensions"):
            index.search(np.zeros((1, 3), dtype=np.float32), 1)
        with pytest.raises(IsoglossError, match="at least 1"):
            index.search(ROWS[:1], 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_every_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    save_file({"x": torch.from_numpy(ROWS).to(dtype), "bias": torch.zeros(3)}, tmp_path / "docs.safetensors")
    with open_index(str(tmp_path / "docs.safetensors")) as index:
        facts = index.facts()
        assert (facts.kind, facts.size, facts.dimension, facts.exact) == ("safetensors", 3, 2, True)
        assert index.search(ROWS[:1], 2)[0].ids == ["0", "2"]
        assert np.array_equal(index.sample(2).vectors, ROWS[[0, 2]])


def test_which_tensor(tmp_path: Path) -> None:
    rows = torch.from_numpy(ROWS)
    path = tmp_path / "docs.safetensors"
    save_file({"a": rows, "b": torch.flip(rows, [1]), "ids": torch.arange(6).reshape(3, 2)}, path)
    assert found(f"{path}?tensor=a") == ["0", "2", "1"] and found(f"{path}?tensor=b") == ["1", "2", "0"]
    for address, said in (
        (f"{path}", "expected one tensor with one vector per row, found a [3, 2], b [3, 2] and ids [3, 2]"),
        (f"{path}?tensor=c", "there is no tensor 'c'"),
        (f"{path}?tensor=ids", "the tensor 'ids' holds I64"),
        (f"{tmp_path / 'none.safetensors'}", "no such file"),
        (f"{tmp_path / 'bad.safetensors'}", "not a readable .safetensors file"),
    ):
        (tmp_path / "bad.safetensors").write_bytes(b"nothing of the kind")
        with pytest.raises(IsoglossError) as caught:
            open_index(address)
        assert said in caught.value.message and caught.value.hint


def test_an_empty_array(tmp_path: Path) -> None:
    np.save(tmp_path / "docs.npy", ROWS[:0])
    with open_index(str(tmp_path / "docs.npy")) as index:
        facts = index.facts()
        assert (facts.size, facts.unit_norm) == (0, None)
        assert index.search(ROWS, 2)[0].ids == [] and index.sample(2).ids == []


def test_of_equal_ids_the_first_has_the_text(docs: Path) -> None:
    docs.with_suffix(".tsv").write_text("a\tone\na\ttwo\nb\tthree\n")
    assert found(docs) == ["a", "b", "a"]
    with open_index(str(docs)) as index:
        assert index.texts(["a", "b"]) == {"a": "one", "b": "three"}
