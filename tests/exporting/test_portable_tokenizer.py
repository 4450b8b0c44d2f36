"""A tokenizer.json without Nmt gives the same tokens for any text; others stay as they are, byte for byte."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers

from isogloss.exporting.portable_tokenizer import make_portable
from tiny import unigram

NMT = normalizers.Nmt()


def steps(path: Path, normalizer: normalizers.Normalizer) -> normalizers.Normalizer:
    """The normalizer of a rewritten file."""
    tokenizer = unigram().backend_tokenizer
    tokenizer.normalizer = normalizer
    tokenizer.save(str(path))
    make_portable(path)
    assert '"Nmt"' not in path.read_text(encoding="utf-8")
    found: normalizers.Normalizer = Tokenizer.from_file(str(path)).normalizer
    return found


def test_every_character_is_treated_as_nmt_does(tmp_path: Path) -> None:
    plain = steps(tmp_path / "tokenizer.json", NMT)
    for code in [*range(0xD800), *range(0xE000, 0x20000)]:
        text = f"a{chr(code)}b"
        assert plain.normalize_str(text) == NMT.normalize_str(text), hex(code)


def test_the_steps_around_it_keep_their_order(tmp_path: Path) -> None:
    inner = normalizers.Sequence([NMT, normalizers.NFKC()])
    whole = normalizers.Sequence([normalizers.Replace("～", "\ue000"), inner, normalizers.Replace(Regex(" {2,}"), " ")])
    plain = steps(tmp_path / "tokenizer.json", whole)

    @given(st.text())
    def same(text: str) -> None:
        assert plain.normalize_str(text) == whole.normalize_str(text)

    same()


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    for normalizer in (None, normalizers.NFKC(), normalizers.Sequence([normalizers.NFC()])):
        tokenizer = unigram().backend_tokenizer
        tokenizer.normalizer = normalizer
        tokenizer.save(str(path))
        before = path.read_bytes()
        make_portable(path)
        assert path.read_bytes() == before
