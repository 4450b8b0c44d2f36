"""The test sets by name: their subsets, their files in a data folder, their place on the hub, and how to get them.

`test_sets` reads them; `suites` combines them.
"""

from dataclasses import dataclass, field

FROM_HUB = "pip install datasets, then `isogloss evaluate MODEL --suite … --data hub` fetches it from the hub"

# The extended STS 2017 of Reimers & Gurevych 2020: tables 1 and 2, in their order.
STS_SAME = ("en-en", "es-es", "ar-ar")
STS_ACROSS = ("en-ar", "en-de", "en-tr", "en-es", "en-fr", "en-it", "en-nl")
STS_ACROSS_OFFICIAL = ("en-ar", "en-tr", "en-es")  # what SemEval itself has; the others are translations of en-en
STSB_MULTI = ("de", "en", "es", "fr", "it", "ja", "nl", "pl", "pt", "ru", "zh")
MSTSB = ("ar", "cs", "de", "en", "es", "fr", "hi", "it", "ja", "nl", "pl", "pt", "ru", "tr", "zh-CN", "zh-TW")
STSB_ACROSS = tuple(f"en-{code}" for code in ("de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "zh"))
BUCC = ("de-en", "fr-en", "ru-en", "zh-en")  # Reimers & Gurevych 2020, table 3
XNLI = ("en", "ar", "bg", "de", "el", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
PAWSX = ("en", "de", "es", "fr", "ja", "ko", "zh")
SIB = ("en", "ar", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "sw", "th", "tr", "zh")

# The 112 languages of LASER's Tatoeba test set v1 (Artetxe & Schwenk 2019), by their codes there.
_TATOEBA = """
afr amh ang ara arq arz ast awa aze bel ben ber bos bre bul cat cbk ceb ces cha cmn cor csb cym dan deu dsb dtp ell epo
est eus fao fin fra fry gla gle glg gsw heb hin hrv hsb hun hye ido ile ina ind isl ita jav jpn kab kat kaz khm kor kur kzj
lat lfn lit lvs mal mar max mhr mkd mon nds nld nno nob nov oci orv pam pes pms pol por ron rus slk slv spa sqi srp swe swg
swh tam tat tel tgl tha tuk tur tzl uig ukr urd uzb vie war wuu xho yid yue zsm
"""
TATOEBA = tuple(_TATOEBA.split())

_SIB = """
eng_Latn arb_Arab deu_Latn spa_Latn fra_Latn ita_Latn jpn_Jpan kor_Hang nld_Latn pol_Latn por_Latn rus_Cyrl swh_Latn
tha_Thai tur_Latn zho_Hans
"""
_SIB_CODES = dict(zip(SIB, _SIB.split(), strict=True))


@dataclass(frozen=True, slots=True)
class SetLayout:
    """Where the file of a set is in the data folder, and which of its columns are used, in which order.

    The first of `paths` that exists is read; `{a}`, `{b}` (languages), `{split}`, `{part}` and `{code}` (the language in the
    hub's spelling) are filled in. No columns: the whole line.
    """

    paths: tuple[str, ...]
    columns: tuple[int, ...] = ()
    header: bool = False
    comma: bool = False


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where a set is on the hub, and which of its columns are used, in which order.

    `configurations` are tried in turn, with `{a}` and `{b}` (languages) filled in. `nested`: one row whose cells are lists, as
    in MTEB's BUCC.
    """

    repository: str
    configurations: tuple[str, ...]
    columns: tuple[str, ...]
    nested: bool = False


@dataclass(frozen=True, slots=True)
class KnownSet:
    """One test set: its subsets and where they are."""

    name: str
    subsets: tuple[str, ...]
    folder: SetLayout
    hub: HubPlace | None
    fetch: str = FROM_HUB
    gold: SetLayout | None = None  # gold pairs, if they have their own file
    alone: bool = False  # subsets are languages, not pairs of them
    either_order: bool = False  # STS.en-ar and STS.ar-en are the same set
    unit: str = ""  # subsets with the same pairs in several languages are resampled together
    codes: dict[str, str] = field(default_factory=dict)  # the hub's spelling of languages


_ALL = (
    KnownSet(
        "sts2017",
        (*STS_SAME, *STS_ACROSS),
        SetLayout(("sts2017/STS.{a}-{b}.txt", "STS2017-extended/STS.{a}-{b}.txt"), (0, 1, 2)),
        HubPlace("mteb/sts17-crosslingual-sts", ("{a}-{b}", "{b}-{a}"), ("sentence1", "sentence2", "score")),
        either_order=True,
    ),
    KnownSet(
        "stsb",
        ("en-en",),
        SetLayout(("stsb/sts-{split}.csv", "stsbenchmark/sts-{split}.csv"), (5, 6, 4)),
        HubPlace("mteb/stsbenchmark-sts", ("",), ("sentence1", "sentence2", "score")),
        unit="stsb test",
    ),
    KnownSet(
        "stsb-multi",
        STSB_MULTI,
        SetLayout(("stsb_multi_mt/stsb-{a}-{split}.csv",), (0, 1, 2), comma=True),
        HubPlace("PhilipMay/stsb_multi_mt", ("{a}",), ("sentence1", "sentence2", "similarity_score")),
        alone=True,
        unit="stsb test",
    ),
    KnownSet(
        "mstsb",
        MSTSB,
        SetLayout(("mstsb_test/stsb-{a}-{split}.tsv",), (0, 1, 2)),
        None,
        alone=True,
        fetch="git clone https://github.com/Huertas97/Multilingual-STSB, and put its test files in DATA/mstsb_test",
    ),
    KnownSet(
        "stsb-cross",
        STSB_ACROSS,
        SetLayout(("stsb_xling/STS.{a}-{b}.txt",), (0, 1, 2)),
        None,
        unit="stsb test",
        fetch="put STS.en-xx.txt in DATA/stsb_xling: sentence 1 of STSb test, sentence 2 of its translation, the gold score",
    ),
    KnownSet(
        "korsts",
        ("ko-ko",),
        SetLayout(("kor_nlu/KorSTS_sts-{split}.tsv", "KorSTS/sts-{split}.tsv"), (5, 6, 4), header=True),
        HubPlace("dkoterwa/kor-sts", ("",), ("sentence1", "sentence2", "score")),
        fetch=f"git clone https://github.com/kakaobrain/kor-nlu-datasets, and put its folder KorSTS in DATA; or {FROM_HUB}",
        unit="korsts test",
    ),
    KnownSet(
        "tatoeba",
        TATOEBA,
        SetLayout(
            ("tatoeba_laser_v1/tatoeba.{a}-eng.{b}", "tatoeba/v1/tatoeba.{a}-eng.{b}", "data/tatoeba/v1/tatoeba.{a}-eng.{b}")
        ),
        HubPlace("mteb/tatoeba-bitext-mining", ("{a}-eng",), ("sentence1", "sentence2")),
        fetch=f"git clone --depth 1 https://github.com/facebookresearch/LASER, and put its data/tatoeba in DATA; or {FROM_HUB}",
    ),
    KnownSet(
        "bucc",
        BUCC,
        SetLayout(("bucc2018_{a}-{b}/{a}-{b}.{split}.{part}", "bucc2018/{a}-{b}/{a}-{b}.{split}.{part}"), (0, 1)),
        HubPlace("mteb/bucc-bitext-mining", ("{a}-{b}",), ("sentence1", "sentence2", "gold"), nested=True),
        fetch="curl -LO https://comparable.lisn.upsaclay.fr/bucc2018/bucc2018-XX-en.training-gold.tar.bz2 "
        f"(XX: de, fr, ru, zh) and unpack it in DATA; or {FROM_HUB}",
        gold=SetLayout(("bucc2018_{a}-{b}/{a}-{b}.{split}.gold", "bucc2018/{a}-{b}/{a}-{b}.{split}.gold"), (0, 1)),
    ),
    KnownSet(
        "mining-news",
        ("de-en", "fr-en"),
        SetLayout(("mining_news/{a}-{b}/{a}-{b}.{part}",), (0, 1)),
        None,
        fetch="put XX-en.XX, XX-en.en (id, sentence) and XX-en.gold (id, id) in DATA/mining_news/XX-en",
        gold=SetLayout(("mining_news/{a}-{b}/{a}-{b}.gold",), (0, 1)),
    ),
    KnownSet(
        "xnli",
        XNLI,
        SetLayout(("xnli/{split}-{a}.tsv",), (0, 1, 2)),
        HubPlace("facebook/xnli", ("{a}",), ("premise", "hypothesis", "label")),
    ),
    KnownSet(
        "pawsx",
        PAWSX,
        SetLayout(("pawsx/{split}-{a}.tsv",), (0, 1, 2)),
        HubPlace("google-research-datasets/paws-x", ("{a}",), ("sentence1", "sentence2", "label")),
    ),
    KnownSet(
        "sib",
        SIB,
        SetLayout(("sib200/{code}/{split}.tsv", "sib200/data/annotated/{code}/{split}.tsv"), (2, 1), header=True),
        HubPlace("Davlan/sib200", ("{a}",), ("text", "category")),
        codes=_SIB_CODES,
    ),
)
SETS = {one.name: one for one in _ALL}
