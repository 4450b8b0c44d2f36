"""The letters of each language, to find pieces of a vocabulary that it cannot use.

Hundreds of languages share Latin and Cyrillic, so letters are compared there; any other script is kept as a whole. A language
that is not listed keeps the whole script of its text.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

BASIC_LATIN = "abcdefghijklmnopqrstuvwxyz"
RUSSIAN = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"

# Lower-case letters beyond the basic alphabet of the script, including those of loanwords.
LETTERS: dict[str, str] = {
    "en": "éèêçñïöüâ",
    "af": "áéèêëíîïóôöúûü",
    "bg": "ѝ",
    "ca": "àçéèíïóòúü·ñ",
    "cs": "áčďéěíňóřšťúůýž",
    "da": "æøåéá",
    "de": "äöüßéèàç",
    "es": "áéíñóúüç",
    "et": "äõöüšž",
    "eu": "ñçü",
    "fi": "äöåšž",
    "fr": "àâæçéèêëîïôœùûüÿñ",
    "ga": "áéíóú",
    "gl": "áéíñóúü",
    "hr": "čćđšž",
    "hu": "áéíóöőúüű",
    "id": "é",
    "is": "áðéíóúýþæö",
    "it": "àèéìíîòóùúç",
    "lt": "ąčęėįšųūž",
    "lv": "āčēģīķļņšūž",
    "ms": "é",
    "nl": "áàäçéèêëíïóöúüñ",
    "no": "æøåéèêóòâô",
    "pl": "ąćęłńóśźż",
    "pt": "àáâãçéêíóôõúüñ",
    "ro": "ăâîșşțţ",
    "ru": "",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "sl": "čšž",
    "sq": "çë",
    "sv": "åäöéàü",
    "sw": "",
    "tl": "ñ",
    "tr": "çğıi̇öşüâîû",
    "tt": "әөүҗңһ",
    "uk": "ґєії",
    "vi": "ăâđêôơưàảãáạằẳẵắặầẩẫấậèẻẽéẹềểễếệìỉĩíịòỏõóọồổỗốộờởỡớợùủũúụừửữứựỳỷỹýỵ",
}
CYRILLIC_LANGUAGES = {"ru", "bg", "uk", "tt"}
SHARED_SCRIPTS = {"LATIN", "CYRILLIC"}


@cache
def script_of(character: str) -> str:
    """The script of a letter ("LATIN", "CJK", "HANGUL"); empty for digits, marks and punctuation."""
    if not character.isalpha():
        return ""
    return unicodedata.name(character, "").split(" ")[0].split("-")[0]


def letters_of(language: str) -> frozenset[str] | None:
    """The lower-case letters of a language; None if it is not listed."""
    base = language.split("-")[0]
    if base not in LETTERS:
        return None
    alphabet = RUSSIAN if base in CYRILLIC_LANGUAGES else BASIC_LATIN
    return frozenset(alphabet) | frozenset(LETTERS[base])


class Alphabet:
    """The letters and scripts of a set of languages, from the table above and from their text."""

    def __init__(self, texts_by_language: dict[str, Iterable[str]]) -> None:
        self.scripts: set[str] = set()
        self.letters: set[str] = set()
        self.open_scripts: set[str] = set()  # shared scripts that are kept as a whole
        for language, texts in texts_by_language.items():
            seen = {character for text in texts for character in text.lower()}
            scripts = {script_of(character) for character in seen} - {""}
            self.scripts |= scripts
            self.letters |= seen
            known = letters_of(language)
            if known is None:
                self.open_scripts |= scripts & SHARED_SCRIPTS
            else:
                self.letters |= known
                self.scripts |= {script_of(character) for character in known} - {""}
        # Names, units and code use basic Latin everywhere.
        self.scripts.add("LATIN")
        self.letters |= set(BASIC_LATIN)

    def can_spell(self, piece: str) -> bool:
        """Whether text in these languages could contain `piece`."""
        by_letter = SHARED_SCRIPTS - self.open_scripts
        letters = ((character, script) for character in piece.lower() if (script := script_of(character)))
        return all(script in self.scripts and (script not in by_letter or letter in self.letters) for letter, script in letters)
