"""A corpus by name, onto the disk: from every kind of service, once, with its license, under a name that readers know."""

import gzip
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corpora.catalogue.service import COMMIT, Fault, Service
from corpora.catalogue.test_download import zipped
from corpora.catalogue.test_wikipedia import dump, link, page
from isogloss.corpora.catalogue.download import kept
from isogloss.corpora.catalogue.get import get
from isogloss.corpora.catalogue.retries import Patience
from isogloss.corpora.reading.languages import pair_in
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.origin import origin_of
from isogloss.corpora.reading.readers import stream
from isogloss.corpora.reading.sources import find_sources
from isogloss.errors import DataError
from isogloss.progress import Step

MOSES = zipped(**{"TED2020.de-en.de": "Hallo\n", "TED2020.de-en.en": "Hello\n", "README": "", "LICENSE": ""})
WIKIMATRIX = "/dl.fbaipublicfiles.com/laser/WikiMatrix/v1/WikiMatrix.de-en.tsv.gz"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "corpora"


@pytest.fixture
def mirror(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("ISOGLOSS_MIRROR", service.url + "/")
    return service


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def everything(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] != ".kept"}


def test_moses_text_from_opus(service: Service, cache: Path, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    steps: list[Step] = []
    (path,) = get("ted2020", ("en", "de"), on_progress=steps.append, patience=patience)
    assert path == cache / "TED2020" / "v1" / "TED2020.en-de.zip" and path.read_bytes() == MOSES
    origin = origin_of(path)
    assert origin is not None and kept(path)
    assert (origin.corpus, origin.version, origin.license, origin.dictionary) == ("TED2020", "v1", "TED usage policy", False)
    assert pair_in("TED2020.en-de", "en") == ("de", True)
    assert {step.stage for step in steps} == {"TED2020 en-de"} and steps[-1].finished


def test_what_was_fetched_is_not_asked_for_again(service: Service, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    first = get("TED2020", ("en", "de"), patience=patience)
    service.asked.clear()
    steps: list[Step] = []
    assert get("TED2020", ("en", "de"), on_progress=steps.append, patience=patience) == first
    assert not service.asked and steps[-1].note == "reused from the cache"
    first[0].write_bytes(b"damaged")
    assert get("TED2020", ("en", "de"), patience=patience) == first and first[0].read_bytes() == MOSES


def test_refresh_asks_for_something_newer(service: Service, cache: Path, tmp_path: Path, patience: Patience) -> None:
    newer = zipped(**{"x.en": "new", "x.de": "neu"})
    service.offer_on_opus("Tatoeba", "v2021", "de-en", MOSES)
    for folder in (None, tmp_path / "mine"):
        get("Tatoeba", ("en", "de"), folder, patience=patience)
    service.opus[0]["latest"] = "False"
    service.offer_on_opus("Tatoeba", "v2023", "de-en", newer)
    assert get("Tatoeba", ("en", "de"), patience=patience)[0].parent.name == "v2021"
    (path,) = get("Tatoeba", ("en", "de"), refresh=True, patience=patience)
    assert path == cache / "Tatoeba" / "v2023" / "Tatoeba.en-de.zip"
    assert get("Tatoeba", ("en", "de"), patience=patience) == [path]
    (mine,) = get("Tatoeba", ("en", "de"), tmp_path / "mine", refresh=True, patience=patience)
    assert mine.read_bytes() == newer
    assert len(service.requests("/OPUS-Tatoeba/v2023/moses/de-en.txt.zip")) == 2


def test_a_version_of_ones_own_choice_and_a_fixed_one(service: Service, cache: Path, patience: Patience) -> None:
    service.offer_on_opus("OpenSubtitles", "v2018", "de-en", MOSES, latest=False)
    service.offer_on_opus("OpenSubtitles", "v2024", "de-en", MOSES)
    assert get("OpenSubtitles2018", ("en", "de"), patience=patience)[0].parent == cache / "OpenSubtitles2018" / "v2018"
    assert get("opensubtitles@v2024", ("en", "de"), patience=patience)[0].parent.name == "v2024"
    with pytest.raises(DataError, match="not a version"):
        get("OpenSubtitles2018@../up", ("en", "de"), patience=patience)


@pytest.mark.parametrize("version", ["../../evil", "/tmp/evil", "..", "a/b", "", ".hidden"])
def test_what_a_server_calls_a_version_is_no_way_out_of_the_cache(
    service: Service, tmp_path: Path, patience: Patience, version: str
) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    service.opus[0]["version"] = version
    service.datasets["sentence-transformers/parallel-sentences-talks"] = {"en-de/train.parquet": parquet(("Hello", "Hallo"))}
    service.commit = version
    for name in ("TED2020", "parallel-sentences-talks"):
        with pytest.raises(DataError, match="not a version"):
            get(name, ("en", "de"), patience=patience)
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".zip", ".parquet", ".part")]


def test_tmx_where_there_is_no_moses_text(service: Service, patience: Patience) -> None:
    service.offer_on_opus("Some", "v1", "de-en", gzip.compress(b"<tmx/>"), kind="tmx")
    (path,) = get("opus:Some", ("en", "de"), patience=patience)
    assert path.name == "Some.en-de.tmx.gz" and gzip.decompress(path.read_bytes()) == b"<tmx/>"


def test_two_columns_keep_the_order_of_opus(service: Service, patience: Patience) -> None:
    service.offer_on_opus("Some", "v1", "de-en", gzip.compress(b"Hallo\tHello\n"), kind="tsv")
    (path,) = get("opus:Some", ("en", "de"), patience=patience)
    assert path.name == "Some.de-en.tsv.gz"


def test_a_cut_and_busy_service_is_borne_with(service: Service, patience: Patience, waits: list[float]) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    service.faults["/opusapi/"] = [Fault(429, {"Retry-After": "2"})]
    place = "/OPUS-TED2020/v1/moses/de-en.txt.zip"
    service.faults[place] = [Fault(503), Fault(cut_after=40)]
    (path,) = get("TED2020", ("en", "de"), patience=patience)
    assert path.read_bytes() == MOSES
    assert [one.headers.get("range") for one in service.requests(place)] == [None, None, "bytes=40-"]
    assert len(waits) == 3 and waits[0] == 2


def test_a_truncated_zip_leaves_what_was_there(service: Service, cache: Path, patience: Patience) -> None:
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    (path,) = get("TED2020", ("en", "de"), patience=patience)
    service.opus.clear()
    service.offer_on_opus("TED2020", "v2", "de-en", MOSES[:-9])
    with pytest.raises(DataError, match="not a whole zip archive"):
        get("TED2020", ("en", "de"), refresh=True, patience=patience)
    assert everything(cache) == {"TED2020/v1/TED2020.en-de.zip", "TED2020/v1/TED2020.en-de.zip.origin.json"}
    assert get("TED2020", ("en", "de"), patience=patience) == [path]


def parquet(*pairs: tuple[str, str]) -> bytes:
    memory = io.BytesIO()
    pq.write_table(pa.table({"english": [one for one, _ in pairs], "non_english": [other for _, other in pairs]}), memory)
    return memory.getvalue()


def test_parquet_from_the_hub(service: Service, cache: Path, tmp_path: Path, patience: Patience) -> None:
    service.datasets["sentence-transformers/parallel-sentences-talks"] = {
        "en-de/train-00000-of-00001.parquet": parquet(("Hello", "Hallo")),
        "en-fr/train-00000-of-00002.parquet": parquet(("Hello", "Salut")),
        "en-fr/train-00001-of-00002.parquet": parquet(("Bye", "Salut")),
    }
    (path,) = get("parallel-sentences-talks", ("en", "de"), patience=patience)
    assert path == cache / "parallel-sentences-talks" / COMMIT[:12] / "parallel-sentences-talks.en-de.parquet"
    assert pq.read_table(path).to_pylist() == [{"english": "Hello", "non_english": "Hallo"}]
    origin = origin_of(path)
    assert origin is not None and origin.version == COMMIT and "/resolve/" in origin.url
    french = get("parallel-sentences-talks", ("en", "fr"), tmp_path / "mine", patience=patience)
    assert [path.name for path in french] == [
        "parallel-sentences-talks.00000-of-00002.en-fr.parquet",
        "parallel-sentences-talks.00001-of-00002.en-fr.parquet",
    ]
    assert all(pair_in(path.name.removesuffix(".parquet"), "en") == ("fr", True) for path in french)


def test_a_pair_in_two_spellings_makes_one_file(service: Service, patience: Patience) -> None:
    service.datasets["sentence-transformers/parallel-sentences-talks"] = {
        "en-zh/train.parquet": parquet(("Hello", "你好")),
        "en-zh_cn/train.parquet": parquet(("Bye", "再见")),
    }
    (path,) = get("parallel-sentences-talks", ("en", "zh"), patience=patience)
    assert path.name.endswith(".en-zh.parquet")
    assert pq.read_table(path).to_pylist() == [{"english": "Hello", "non_english": "你好"}]


def test_a_file_of_the_hub_that_is_not_what_it_says(service: Service, cache: Path, patience: Patience) -> None:
    repo, name = "sentence-transformers/parallel-sentences-talks", "en-de/train-00000-of-00001.parquet"
    service.datasets[repo] = {name: parquet(("Hello", "Hallo"))}
    service.serve(f"/datasets/{repo}/resolve/{COMMIT}/{name}", b"")

    def swap() -> None:
        service.datasets[repo][name] = parquet(("Hello", "Holla"))

    service.faults[f"/datasets/{repo}/resolve/{COMMIT}/{name}"] = [Fault(before=swap)]
    with pytest.raises(DataError, match="the checksum is"):
        get("parallel-sentences-talks", ("en", "de"), patience=patience)
    assert everything(cache) == set()


def test_a_word_list(mirror: Service, cache: Path, patience: Patience) -> None:
    mirror.serve("/dl.fbaipublicfiles.com/arrival/dictionaries/en-no.txt", b"the den\nhouse hus\n")
    (path,) = get("MUSE", ("en", "nb"), patience=patience)
    assert path == cache / "MUSE" / "v1" / "muse.en-nb.txt" and path.read_bytes() == b"the den\nhouse hus\n"
    origin = origin_of(path)
    assert origin is not None and origin.dictionary and origin.license == "CC BY-NC 4.0"


@pytest.mark.parametrize("languages", [("en", "sw"), ("ar", "de"), ("en", "xx")])
def test_a_word_list_that_is_not_there(mirror: Service, patience: Patience, languages: tuple[str, str]) -> None:
    with pytest.raises(DataError, match=f"MUSE has no {'-'.join(languages)}") as caught:
        get("MUSE", languages, patience=patience)
    assert "af, ar, bg" in caught.value.hint


def test_wikimatrix_above_its_limit(mirror: Service, cache: Path, tmp_path: Path, patience: Patience) -> None:
    scored = [(1.2, "Hallo", "Hello"), (1.05, "Ja", "Yes"), (1.049, "Nein", "Maybe"), (1.07, "Haus", "House")]
    mirror.serve(WIKIMATRIX, gzip.compress("".join(f"{a}\t{b}\t{c}\n" for a, b, c in scored).encode()))
    (path,) = get("WikiMatrix", ("en", "de"), patience=patience)
    assert path == cache / "WikiMatrix" / "v1" / "WikiMatrix.de-en.tsv.gz"
    assert rows(path) == [["de", "en", "score"], ["Hallo", "Hello", "1.2"], ["Ja", "Yes", "1.05"], ["Haus", "House", "1.07"]]
    assert everything(cache) == {f"WikiMatrix/v1/{name}" for name in (path.name, f"{path.name}.origin.json")}
    (strict,) = get("WikiMatrix", ("en", "de"), min_score=1.1, patience=patience)
    assert strict.parent.name == "v1-1.1" and len(rows(strict)) == 2 and len(rows(path)) == 4
    for limit, count in ((None, 4), (1.0, 5), (None, 4)):  # the same name in a folder of one's own
        (mine,) = get("WikiMatrix", ("en", "de"), tmp_path / "mine", min_score=limit, patience=patience)
        assert len(rows(mine)) == count


def test_only_what_has_scores_is_chosen_by_score(mirror: Service, patience: Patience) -> None:
    with pytest.raises(DataError, match="TED2020 cannot be fetched by score"):
        get("TED2020", ("en", "de"), min_score=1.1, patience=patience)


def test_thai_from_an_archive_of_tables(mirror: Service, patience: Patience) -> None:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("scb-mt-en-th-2020/nus_sms.csv", 'en_text,th_text\n"Hi, you",หวัดดี\n')
    release = "vistec-AI/dataset-releases/releases/download/scb-mt-en-th-2020_v1.0"
    mirror.serve(f"/github.com/{release}/scb-mt-en-th-2020.zip", memory.getvalue())
    (path,) = get("SCB", ("en", "th"), patience=patience)
    assert path.name == "SCB-MT-EN-TH-2020.en-th.tsv.gz" and rows(path) == [["en", "th"], ["Hi, you", "หวัดดี"]]
    with pytest.raises(DataError, match="has no en-de"):
        get("SCB", ("en", "de"), patience=patience)


def test_turkish_in_parts(mirror: Service, patience: Patience) -> None:
    base = "/raw.githubusercontent.com/maidis/turkish-parallel-corpora/f3654a9e42a8a99627004e2ec288c59e468996c4"
    parts = [f"{part}/{part}_tr_trunk_20181124.{code}" for part in ("kde4", "kde5") for code in ("en", "tr")]
    parts += ["bible/bibleEnglish.txt", "bible/bibleTurkish.txt", "lonweb/lonweb.org.en", "lonweb/lonweb.org.tr"]
    for part in parts:
        mirror.serve(f"{base}/{part}", part.encode())
    paths = get("Turkish-parallel-corpora", ("tr", "en"), patience=patience)
    assert len(paths) == 8
    assert {path.read_text() for path in paths} == set(parts)
    assert {path.suffix for path in paths} == {".en", ".tr"}


def test_paracrawl_as_the_paper_had_it(mirror: Service, patience: Patience) -> None:
    mirror.serve("/s3.amazonaws.com/web-language-models/paracrawl/release6/en-pl.txt.gz", gzip.compress(b"Hi\tHej\n"))
    assert get("ParaCrawl-v6", ("pl", "en"), patience=patience)[0].name == "ParaCrawl-v6.en-pl.tsv.gz"
    for languages in (("de", "pl"), ("en", "ru")):
        with pytest.raises(DataError, match="ParaCrawl-v6 has no"):
            get("ParaCrawl-v6", languages, patience=patience)
    with pytest.raises(DataError, match="no version v7"):
        get("ParaCrawl-v6@v7", ("en", "pl"), patience=patience)


def offer_dumps(mirror: Service, folder: Path, english: str = "House") -> None:
    links = dump(folder / "l.gz", "langlinks", [link(1, "en", english), link(2, "fr", "Chien"), link(3, "en", "Cat")])
    pages = dump(folder / "p.gz", "page", [page(1, 0, "Haus_(Bau)"), page(2, 0, "Hund"), page(3, 0, "Katze")])
    for name, path in (("langlinks", links), ("page", pages)):
        mirror.serve(f"/dumps.wikimedia.org/dewiki/latest/dewiki-latest-{name}.sql.gz", path.read_bytes())


def test_titles_of_wikipedia(mirror: Service, cache: Path, tmp_path: Path, patience: Patience) -> None:
    offer_dumps(mirror, tmp_path)
    steps: list[Step] = []
    (path,) = get("Wikititles", ("en", "de"), on_progress=steps.append, patience=patience)
    assert path == cache / "Wikititles" / "latest" / "Wikititles.en-de.tsv.gz"
    assert rows(path) == [["en", "de"], ["House", "Haus (Bau)"], ["Cat", "Katze"]]
    origin = origin_of(path)
    assert origin is not None and origin.dictionary and origin.license == "CC BY-SA 4.0"
    assert everything(cache) == {f"Wikititles/latest/{name}" for name in (path.name, f"{path.name}.origin.json")}
    offer_dumps(mirror, tmp_path, english="Building")
    asked = len(mirror.asked)
    assert rows(get("Wikititles", ("en", "de"), patience=patience)[0])[1] == ["House", "Haus (Bau)"]
    assert len(mirror.asked) == asked
    (newer,) = get("Wikititles", ("en", "de"), refresh=True, patience=patience)
    assert rows(newer)[1] == ["Building", "Haus (Bau)"]


def test_titles_of_a_wikipedia_that_is_not_there(mirror: Service, tmp_path: Path, patience: Patience) -> None:
    with pytest.raises(DataError, match="there are no dumps for en-xx"):
        get("Wikititles", ("en", "xx"), patience=patience)
    offer_dumps(mirror, tmp_path)
    with pytest.raises(DataError, match="Wikititles has no pairs for ka-de"):
        get("Wikititles", ("ka", "de"), patience=patience)


@pytest.mark.parametrize(
    ("name", "words", "advice"),
    [
        ("JW300", "withdrawn from OPUS for license reasons", "JW300.en-ko.ko"),
        ("AIHub", "registered users only", "AIHub.ko-en.tsv"),
        ("parallel-sentences-muse", "do not say their language", "isogloss corpora get MUSE --lang en-ko"),
        ("parallel-sentences-jw300", "may not be redistributed", "TED2020"),
    ],
)
def test_what_must_be_got_by_hand_says_how(service: Service, name: str, words: str, advice: str) -> None:
    with pytest.raises(DataError, match=words) as caught:
        get(name, ("en", "ko"))
    assert advice in caught.value.hint and not service.asked


def pairs_in(files: list[Path]) -> list[tuple[str, str, str, bool]]:
    """What the readers make of files, and whether they take it for a dictionary."""
    return [
        (row["source"], row["target"], row["language"], source.dictionary)
        for source in find_sources(files)
        for block in stream(source, Faults())
        for row in block.to_pylist()
    ]


def test_the_readers_know_every_kind_of_file(service: Service, monkeypatch: pytest.MonkeyPatch, patience: Patience) -> None:
    tmx = "<tmx><body><tu><tuv xml:lang='de'><seg>Hallo</seg></tuv><tuv xml:lang='en'><seg>Hello</seg></tuv></tu></body></tmx>"
    service.offer_on_opus("TED2020", "v1", "de-en", MOSES)
    service.offer_on_opus("Some", "v1", "de-en", gzip.compress(tmx.encode()), kind="tmx")
    service.offer_on_opus("Other", "v1", "de-en", gzip.compress(b"Hallo\tHello\n"), kind="tsv")
    talks = {"en-de/train-00000-of-00001.parquet": parquet(("Hello", "Hallo"))}
    service.datasets["sentence-transformers/parallel-sentences-talks"] = talks
    for name in ("TED2020", "opus:Some", "opus:Other", "parallel-sentences-talks"):
        assert pairs_in(get(name, ("en", "de"), patience=patience)) == [("Hello", "Hallo", "de", False)], name
    monkeypatch.setenv("ISOGLOSS_MIRROR", service.url)
    service.serve(WIKIMATRIX, gzip.compress(b"1.2\tHallo\tHello\n1\tx\ty\n"))
    service.serve("/dl.fbaipublicfiles.com/arrival/dictionaries/en-de.txt", b"Hello Hallo\n")
    for name, dictionary in (("WikiMatrix", False), ("MUSE", True)):
        assert pairs_in(get(name, ("en", "de"), patience=patience)) == [("Hello", "Hallo", "de", dictionary)], name


def test_unknown_names_and_languages(service: Service, patience: Patience) -> None:
    with pytest.raises(DataError, match="no corpus is called 'Europarlament'") as caught:
        get("Europarlament", ("en", "de"), patience=patience)
    assert "Europarl" in caught.value.hint
    service.offer_on_opus("Europarl", "v8", "de-en", MOSES)
    with pytest.raises(DataError, match="Europarl has no en-tr") as caught:
        get("Europarl", ("en", "tr"), patience=patience)
    assert caught.value.hint == "with en it has de"
    with pytest.raises(DataError, match="not a language pair"):
        get("Europarl", ("en", "en"), patience=patience)
