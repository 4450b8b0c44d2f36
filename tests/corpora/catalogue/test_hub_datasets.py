"""Asking the hub: a folder of Parquet files a pair, at a fixed commit, with checksums; keys stay with the hub."""

from pathlib import Path

import pytest

from corpora.catalogue.service import COMMIT, Service
from isogloss.corpora.catalogue import hub_datasets as hub
from isogloss.corpora.catalogue.download import fetch
from isogloss.corpora.catalogue.retries import Patience
from isogloss.corpora.reading.origin import Origin
from isogloss.errors import DataError, IsoglossError

REPO = "sentence-transformers/parallel-sentences-talks"
PARQUET = b"PAR1 some columns PAR1"


def offer(service: Service, *names: str) -> None:
    service.datasets[REPO] = {name: PARQUET + name.encode() + b"PAR1" for name in names}


def test_the_training_files_of_a_pair(service: Service, patience: Patience) -> None:
    offer(
        service,
        *("all/train-00000-of-00002.parquet", "en-de/dev-00000-of-00001.parquet", "en-de/train-00000-of-00001.parquet"),
        *("en-fr/train-00001-of-00002.parquet", "en-fr/train-00000-of-00002.parquet"),
    )
    (german,) = hub.find(REPO, ("en", "de"), patience=patience)
    assert (german.path, german.shard, german.commit) == ("en-de/train-00000-of-00001.parquet", "", COMMIT)
    assert german.url == f"{service.url}/datasets/{REPO}/resolve/{COMMIT}/en-de/train-00000-of-00001.parquet"
    assert [file.shard for file in hub.find(REPO, ("fr", "en"), patience=patience)] == ["00000-of-00002", "00001-of-00002"]
    assert service.asked[0].path == f"/api/datasets/{REPO}/revision/main?blobs=true"
    assert service.asked[0].headers["authorization"] == "Bearer hf_secret"


def test_files_come_through_a_redirect_that_gets_no_key(service: Service, tmp_path: Path, patience: Patience) -> None:
    offer(service, "en-de/train-00000-of-00001.parquet")
    (file,) = hub.find(REPO, ("en", "de"), COMMIT, patience)
    path, origin = tmp_path / "x.parquet", Origin(corpus="")
    fetch(file.url, path, origin, size=file.size, sha256=file.sha256, token=hub.token(), patience=patience)
    assert path.read_bytes() == service.datasets[REPO]["en-de/train-00000-of-00001.parquet"]
    to_hub, to_store = service.asked[-2:]
    assert to_hub.headers["authorization"] == "Bearer hf_secret"
    assert to_store.path.startswith("/store/") and "authorization" not in to_store.headers


def test_a_pair_that_is_missing_is_answered_with_those_that_are_there(service: Service, patience: Patience) -> None:
    offer(service, "all/train-00000-of-00001.parquet", "en-de/train.parquet", "en-zh_cn/train.parquet")
    assert hub.find(REPO, ("en", "zh"), patience=patience)[0].pair == "en-zh_cn"
    with pytest.raises(DataError, match="has no en-tr") as caught:
        hub.find(REPO, ("en", "tr"), patience=patience)
    assert caught.value.hint == "it has en-de, en-zh_cn"


@pytest.mark.parametrize(
    ("languages", "there", "best"),
    [
        (("en", "zh"), ("en-cmn", "en-zh", "en-zh_cn"), "en-zh"),
        (("en", "zh"), ("en-zh_cn", "zh-en"), "zh-en"),
        (("en", "zh"), ("cmn-en", "en-zh_cn", "zh_cn-en"), "en-zh_cn"),
        (("en", "de"), ("de-en", "en-de"), "en-de"),
        (("de", "en"), ("de-en", "en-de"), "de-en"),
        (("en", "no"), ("en-nb", "en-no"), "en-no"),
        (("en", "nb"), ("en-nb", "en-no"), "en-nb"),
        (("nb", "en"), ("en-no",), "en-no"),
    ],
)
def test_of_several_spellings_only_the_best_is_taken_with_all_its_shards(
    service: Service, patience: Patience, languages: tuple[str, str], there: tuple[str, ...], best: str
) -> None:
    offer(service, *(f"{pair}/train-{shard}-of-00002.parquet" for pair in there for shard in ("00000", "00001")))
    found = [file.path for file in hub.find(REPO, languages, patience=patience)]
    assert found == [f"{best}/train-00000-of-00002.parquet", f"{best}/train-00001-of-00002.parquet"]


def test_a_shard_that_is_written_in_two_ways_is_taken_once(service: Service, patience: Patience) -> None:
    offer(service, "en-de/train.parquet", "en-de/train-00000-of-00001.parquet")
    assert [file.path for file in hub.find(REPO, ("en", "de"), patience=patience)] == ["en-de/train-00000-of-00001.parquet"]


def test_a_set_that_is_laid_out_otherwise(service: Service, patience: Patience) -> None:
    offer(service, "data/train-00000-of-00001.parquet")
    with pytest.raises(DataError, match="no folder of Parquet files per language pair"):
        hub.find(REPO, ("en", "de"), patience=patience)


def test_a_set_or_a_revision_that_is_not_there(service: Service, patience: Patience) -> None:
    offer(service, "en-de/train.parquet")
    with pytest.raises(DataError, match="no data set nobody/nothing at main"):
        hub.find("nobody/nothing", ("en", "de"), patience=patience)
    with pytest.raises(DataError, match="at v9"):
        hub.find(REPO, ("en", "de"), "v9", patience)


def test_offline_is_respected(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DataError, match="HF_HUB_OFFLINE is set"):
        hub.find(REPO, ("en", "de"))
    assert not service.asked


def test_another_service_is_not_taken_for_the_hub(
    service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.serve(f"/api/datasets/{REPO}/revision/main", b"")
    monkeypatch.setenv("HF_ENDPOINT", service.url + "/odd")
    service.serve(f"/odd/api/datasets/{REPO}/revision/main", b'{"corpora": []}')
    with pytest.raises(DataError, match="unexpected answer"):
        hub.find(REPO, ("en", "de"), patience=patience)


@pytest.mark.parametrize(
    "answer",
    [
        *([], 3, None, {"sha": 1, "siblings": []}, {"sha": "c", "siblings": {}}, {"sha": "c", "siblings": ["x"]}),
        {"sha": "c", "siblings": [{"rfilename": None}]},
        {"sha": "c", "siblings": [{"rfilename": "en-de/train.parquet", "size": "3"}]},
        {"sha": "c", "siblings": [{"rfilename": "en-de/train.parquet", "lfs": [1]}]},
        {"sha": "c", "siblings": [{"rfilename": "en-de/train.parquet", "lfs": {"sha256": 5}}]},
    ],
)
def test_an_answer_that_is_not_the_hubs(service: Service, patience: Patience, answer: object) -> None:
    service.answers[f"/api/datasets/{REPO}/revision/main"] = answer
    with pytest.raises(DataError, match=r"unexpected answer \("):
        hub.find(REPO, ("en", "de"), patience=patience)


def test_a_key_that_no_header_can_carry(service: Service, patience: Patience, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_SEC\nRET")
    with pytest.raises(IsoglossError, match="the key in HF_TOKEN has a line break") as caught:
        hub.find(REPO, ("en", "de"), patience=patience)
    assert "RET" not in caught.value.message and not service.asked
