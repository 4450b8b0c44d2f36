"""Asking OPUS: the newest version, the handiest format, languages in any spelling and order."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora.catalogue.service import Fault, Service
from isogloss.corpora.catalogue import opus
from isogloss.corpora.catalogue.opus import OpusFile
from isogloss.corpora.catalogue.retries import Patience
from isogloss.errors import DataError


def test_the_newest_moses_text_is_taken(service: Service, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", b"old", latest=False)
    service.offer_on_opus("TED2020", "v2", "de-en", b"new", pairs=293_562)
    service.offer_on_opus("TED2020", "v2", "de-en", b"tmx", kind="tmx")
    service.offer_on_opus("Europarl", "v8", "de-en")
    for languages in (("en", "de"), ("de", "en")):
        file = opus.find("TED2020", languages, patience=patience)
        assert (file.version, file.kind, file.pairs, file.suffix) == ("v2", "moses", 293_562, ".zip")
    assert service.asked[0].path == "/opusapi/?corpus=TED2020&source=en&preprocessing=moses&version=latest"
    assert len(service.asked) == 2


def test_a_version_can_be_named(service: Service, patience: Patience) -> None:
    service.offer_on_opus("OpenSubtitles", "v2018", "de-en", latest=False)
    service.offer_on_opus("OpenSubtitles", "v2024", "de-en")
    assert opus.find("OpenSubtitles", ("en", "de"), "v2018", patience).version == "v2018"
    with pytest.raises(DataError, match="OPUS has no OpenSubtitles v1 with en"):
        opus.find("OpenSubtitles", ("en", "de"), "v1", patience)


@pytest.mark.parametrize(("kind", "suffix"), [("tmx", ".tmx.gz"), ("tsv", ".tsv.gz")])
def test_other_formats_where_there_is_no_moses_text(service: Service, patience: Patience, kind: str, suffix: str) -> None:
    service.offer_on_opus("Some", "v1", "de-en", kind=kind)
    service.offer_on_opus("Some", "v1", "en-fr")
    file = opus.find("Some", ("en", "de"), patience=patience)
    assert (file.kind, file.suffix) == (kind, suffix)


def test_a_format_that_was_not_asked_for_is_not_taken(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.offer_on_opus("Some", "v1", "de-en")
    odd = service.opus[0] | {"preprocessing": "x/../../../evil", "url": f"{service.url}/odd"}  # it would end the file's name
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/odd/", json.dumps({"corpora": [odd]}).encode()))
    with pytest.raises(DataError, match="Some has no en-de"):
        opus.find("Some", ("en", "de"), patience=patience)


def test_where_no_version_is_marked_as_latest_the_highest_is(service: Service, patience: Patience) -> None:
    for version in ("v9", "v10", "v2"):
        service.offer_on_opus("Some", version, "de-en", latest=False)
    assert opus.find("Some", ("en", "de"), patience=patience).version == "v10"


@pytest.mark.parametrize(
    ("asked", "there"),
    [("zh", "zh_cn"), ("zh", "cmn"), ("zh", "zhs"), ("ja", "jp"), ("fa", "pes"), ("nb", "no"), ("pt_br", "pt_BR")],
)
def test_languages_in_opus_own_spelling(service: Service, patience: Patience, asked: str, there: str) -> None:
    service.offer_on_opus("Some", "v1", "-".join(sorted(("en", there))))
    for languages in (("en", asked), (asked, "en")):
        file = opus.find("Some", languages, patience=patience)
        assert {file.source, file.target} == {"en", there}


def test_of_several_spellings_the_one_with_the_text_is_taken(service: Service, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "en-zh", pairs=300)
    service.offer_on_opus("TED2020", "v1", "en-zh_cn", pairs=399_092)
    service.offer_on_opus("TED2020", "v1", "en-zh_tw", pairs=500_000)
    assert opus.find("TED2020", ("en", "zh"), patience=patience).target == "zh_cn"


def test_a_language_that_is_missing_is_answered_with_those_that_are_there(service: Service, patience: Patience) -> None:
    for pair in ("de-en", "en-fr", "bg-en", "de-fr"):
        service.offer_on_opus("Europarl", "v8", pair)
    service.offer_on_opus("Europarl", "v8", "en-", target="")  # text in one language
    with pytest.raises(DataError, match="Europarl has no en-tr") as caught:
        opus.find("Europarl", ("en", "tr"), patience=patience)
    assert caught.value.hint == "with en it has bg, de, fr"


def test_a_corpus_that_is_not_there(service: Service, patience: Patience) -> None:
    with pytest.raises(DataError, match="OPUS has no Nothing with en") as caught:
        opus.find("Nothing", ("en", "de"), patience=patience)
    assert "--online" in caught.value.hint


def test_all_corpora_of_a_pair(service: Service, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", pairs=5)
    service.offer_on_opus("Books", "v1", "de-en", pairs="")
    service.offer_on_opus("Books", "v1", "en-fr")
    found = opus.search(source="en", target="de", patience=patience)
    assert {(file.corpus, file.pairs) for file in found} == {("TED2020", 5), ("Books", 0)}


def test_a_busy_service_is_asked_again(service: Service, patience: Patience, waits: list[float]) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en")
    service.faults["/opusapi/"] = [Fault(503, {"Retry-After": "3"}), Fault(500)]
    assert opus.find("TED2020", ("en", "de"), patience=patience).version == "v1"
    assert len(waits) == 2 and waits[0] == 3


ROW = {"corpus": "TED2020", "version": "v1", "source": "de", "target": "en", "preprocessing": "moses", "url": "http://x/y.zip"}


@pytest.mark.parametrize(
    "answer",
    [
        *(b'{"corpora": [{}]}', b"[]", b'{"corpora": 3}', b'{"corpora": ["x"]}', b'{"corpora": null}'),
        *(json.dumps({"corpora": [ROW | {name: value}]}).encode() for name in ROW for value in (None, 3, ["de"])),
    ],
)
def test_an_answer_that_is_not_opus(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/elsewhere", answer))
    with pytest.raises(DataError, match="unexpected answer"):
        opus.find("TED2020", ("en", "de"), patience=patience)


@pytest.mark.parametrize("count", ["²", "٣", "9" * 5000, -1, 10**30, None, [], 1.5, True, ""])
def test_a_count_that_is_none_is_no_count(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch, count: object
) -> None:
    answer = {"corpora": [ROW | {"alignment_pairs": count, "size": count, "version": "v²٣" + "7" * 5000}]}
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/elsewhere", json.dumps(answer).encode()))
    file = opus.find("TED2020", ("en", "de"), patience=patience)
    assert (file.pairs, file.suffix) == (0, ".zip")


@pytest.mark.parametrize("url", ["http://[::1", "file:///etc/passwd", "x", "http://u:SECRET@h/x.zip", "http://a..b/x.zip"])
def test_addresses_in_an_answer_are_not_believed(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    from isogloss.corpora.catalogue.get import get

    answer = json.dumps({"corpora": [ROW | {"url": url}]}).encode()
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/elsewhere", answer))
    with pytest.raises(DataError, match="address") as caught:
        get("TED2020", ("en", "de"), tmp_path, patience=patience)
    assert "SECRET" not in caught.value.message


@pytest.mark.parametrize("answer", [b"[" * 100_000, b'{"corpora": ["\\ud800"]}', b'{"corpora": ' + b"9" * 5000 + b"}", b"\xff"])
def test_an_answer_that_cannot_be_followed(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/elsewhere", answer))
    with pytest.raises(DataError, match="the answer is not JSON"):
        opus.find("TED2020", ("en", "de"), patience=patience)


def test_an_answer_that_is_not_json(service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOGLOSS_OPUS_API", service.serve("/elsewhere", b"<html>log in</html>"))
    with pytest.raises(DataError, match="not JSON"):
        opus.find("TED2020", ("en", "de"), patience=patience)


versions = st.lists(st.integers(0, 30), min_size=1, max_size=3).map(lambda numbers: "v" + ".".join(map(str, numbers)))


@given(st.lists(st.tuples(st.sampled_from(["de", "fr"]), versions), max_size=12))
def test_newest_is_the_highest_number_by_number(offered: list[tuple[str, str]]) -> None:
    files = [OpusFile("Some", version, "en", target, "moses", "", 0) for target, version in offered]
    best = {file.target: [int(part) for part in file.version[1:].split(".")] for file in opus.newest(files)}
    for target in ("de", "fr"):
        mine = [[int(part) for part in version[1:].split(".")] for other, version in offered if other == target]
        assert best.get(target) == (max(mine) if mine else None)
