"""Says in which language a text is written, by its script and by the small words that every sentence needs. Pure.

A table of small words, and no trained detector: those that know a hundred languages take 50 MB and guess at notes of
three words, where "I cannot tell" is the right answer; `docs/languages.md` has how often this one is right.
"""

from __future__ import annotations

import re
from functools import lru_cache

ENGLISH = "en"

SCRIPTS = (
    ("ja", "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"),
    ("ko", "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"),
    ("zh", "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"),
    ("ru", "\u0400-\u052f"),
    ("ar", "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff"),
    ("th", "\u0e00-\u0e7f"),
    ("el", "\u0370-\u03ff\u1f00-\u1fff"),
    ("he", "\u0590-\u05ff"),
    ("hi", "\u0900-\u0dff"),
)
"""A language for each script, the first that is found: Japanese mixes its own letters with Chinese ones."""

SMALL_WORDS = {
    ENGLISH: "the of and to in is was for that with on as are by at from this be have has not or an it which were been"
    " what how who when where why did does do can will would should i we you he she they my our your his her"
    " their its there but if about into than then up out so no all more after before over per am me die war"
    " hat son pour plus et us any new get got via",
    "de": "der die das und ist nicht ein eine einen einem einer eines zu mit von für auf dem den des im am sich"
    " auch wir ich sie er es wie was wer wann wo warum welche welcher welches welchen wurde wurden wird werden"
    " hat haben hatte war waren sind bei nach aus aber oder als wenn noch nur über unter durch zum zur vom"
    " kein keine mein meine unser unsere ihr ihre sein seine kann soll muss viele gibt gab heute gestern"
    " welchem wofür womit woran worin worauf worüber wogegen wodurch woher wohin wozu wovon worum wem wen"
    " wessen oft manche jahr wieviele vorgestern übermorgen woche wochen wochenende letzte letzten letzter"
    " montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober"
    " dezember monat vor tagen man diese dieser dieses bedeutet beim",
    "fr": "le la les des du un une et est dans pour que qui sur pas par avec ce cette ces sont était été être avoir"
    " nous vous ils elle elles je tu il au aux ne plus ou où quand comment pourquoi quel quelle quels quelles"
    " combien mais son sa ses leur leurs mon ma mes notre nos votre fait ont hier demain semaine semaines mois"
    " jours dernier dernière lundi mardi mercredi jeudi vendredi samedi dimanche janvier février avril mai"
    " juin juillet août septembre octobre décembre aujourd avant",
    "es": "el la los las de del y en un una es que qué por para con no se lo su sus al como cómo más pero está"
    " están fue fueron ser son era cuándo cuando dónde quién quiénes cuál cuáles cuántos cuántas cuánto porque"
    " nuestro nuestra mi mis este esta hay ha han tiene sobre entre desde ayer hoy mañana anteayer semana"
    " semanas mes pasado pasada última últimos días hace lunes martes miércoles jueves viernes enero febrero"
    " marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "o a os as de do da dos das e em no na nos nas um uma é que por para não se seu sua ao como mais mas foi"
    " foram ser são era quando onde quem qual quais quantos quantas nosso nossa meu minha este esta há tem"
    " está sobre entre pelo pela isso ele ela ontem hoje amanhã anteontem semana semanas mês passado passada"
    " dias feira janeiro fevereiro março maio junho julho setembro outubro dezembro",
    "it": "il lo la gli le di del della dei delle degli e in un una è che per con non si da dal dalla al alla nel"
    " nella come più ma sono era stato stata quando dove chi quale quali quanti quante perché nostro nostra"
    " mio mia questo questa ha hanno anche su sul sulla ci ieri oggi domani cosa settimana settimane mese"
    " giorni scorso scorsa fa lunedì martedì mercoledì giovedì venerdì sabato domenica gennaio febbraio aprile"
    " maggio giugno luglio settembre ottobre dicembre",
    "nl": "de het een en van is in op te dat met voor niet zijn aan er door maar ook bij uit naar als om hij zij"
    " wij ik je we wat wie waar wanneer waarom hoe welke was waren werd werden wordt worden heeft hebben had"
    " deze dit die nog geen mijn ons onze hun kan moet veel over onder gisteren eergisteren vandaag vorige"
    " afgelopen volgende geleden dagen weken maand maandag dinsdag woensdag donderdag vrijdag zaterdag zondag"
    " januari februari maart mei augustus",
    "pl": "i w z na do że się nie jest to są był była było jak co kto kiedy gdzie dlaczego ile jaki jaka jakie"
    " który która które przez dla od po ale czy oraz tym tego jego jej ich został została",
    "tr": "ve bir bu da de için ile ne kim nasıl neden nerede hangi kaç mi mı mu mü olarak olan oldu gibi daha çok"
    " değil var yok ben biz sen onun kadar sonra önce",
    "sv": "och det att en ett är som på av för med den inte till har var de vi jag om men när hur vad vem varför"
    " vilken vilka från eller ska kan",
    "da": "og det at en et er som på af for med den ikke til har var de vi jeg om men når hvordan hvad hvem hvorfor"
    " hvilken hvilke fra eller skal kan",
    "ro": "și de la în a o un nu este sunt pe cu din pentru ce cum când unde cine câte câți cât fost au al ale"
    " lui mai sau dar prin după",
    "vi": "là và của có được trong cho các những một không với người đã này đó khi như nào gì ai bao nhiêu tại vào từ",
    "cs": "a je se na v že to s z do o jak co kdo kdy kde proč kolik který která které byl byla bylo jsou ale nebo"
    " pro není",
    "id": "dan yang di dari untuk dengan ini itu adalah pada ke dalam tidak apa siapa kapan mana bagaimana mengapa"
    " berapa oleh akan telah",
}
_LANGUAGES: dict[str, list[str]] = {}
for _language, _words in SMALL_WORDS.items():
    for _word in dict.fromkeys(_words.split()):
        if len(_word) > 1 or not _word.isascii():
            _LANGUAGES.setdefault(_word, []).append(_language)

WORD = re.compile(r"[^\W\d_]+")
ASCII_WORD = re.compile(r"[A-Za-z]+")
CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|<!--.*?-->", re.DOTALL)
_SCRIPT = tuple((language, re.compile(f"[{letters}]+")) for language, letters in SCRIPTS)
OWN_LETTERS = {
    "ß": "de", "ä": "de", "ö": "de", "ü": "de",
    "ñ": "es", "ã": "pt", "õ": "pt", "ł": "pl", "ę": "pl", "ğ": "tr", "ı": "tr",
    "ș": "ro", "ț": "ro", "ă": "ro", "ř": "cs", "ě": "cs", "ư": "vi", "ơ": "vi",
}  # fmt: skip
"""Letters that mostly one of these languages has; they stand in names too."""
OWN_SIGNS = frozenset("¿¡")
LETTER_WORTH = 0.5
"""What a word with such a letter is worth: one alone is a name or a loan ("jalapeño")."""
NAME_WORTH = 0.5
"""The share of its worth that a capital leaves to a word inside of a text: "Rio de Janeiro"."""

LETTERS = {"el": 4}
"""Letters in a row that are text: a single Greek one is a formula."""
PART = 20
"""One letter in so many of another script makes a text one of that language too; fewer are a name."""
READ = 2_000
"""Characters that are looked at."""
SURE, SHORT = 1.0, 100
"""Small words of another language that show it, in a text of up to so many characters; a longer one must have more."""
IN_ENGLISH = frozenset(
    "la le les los las el de del della der den di da das do du dos van von al san st"
    " ai ben chi cine come comment dan door dove had han hay hoe hun kim man met mia mis mon non os par pro sen ska"
    " sus till ve im über são".split()
)
"""Small words that English has too, in names ("Los Angeles") or with another meaning ("door code"): they count half."""


@lru_cache(maxsize=1_000)
def language_of(text: str) -> str:
    """The language of a text, as a code of two letters; empty when nothing shows it."""
    plain = CODE.sub(" ", text[:READ])
    return _by_script(plain) or _by_small_words(plain)


def foreign_language(text: str) -> str:
    """The language of a text, or of a good part of it; empty for English, and when nothing shows it."""
    language = language_of(text)
    return "" if language == ENGLISH else language


def signs_of(text: str, language: str) -> list[str]:
    """The small words and letters of a text by which it is taken for one of a language; none for a script."""
    letters = (letter for letter in dict.fromkeys(text.lower()) if OWN_LETTERS.get(letter) == language)
    small = (word for word in dict.fromkeys(WORD.findall(text.lower())) if language in _LANGUAGES.get(word, ()))
    return [*small, *letters]


def _by_script(text: str) -> str:
    """The language whose script a good part of the letters has."""
    if text.isascii():
        return ""
    runs = {language: _count(letters.findall(text), LETTERS.get(language, 1)) for language, letters in _SCRIPT}
    other = sum(runs.values())
    if not other or other * PART < sum(map(len, WORD.findall(text))):
        return ""
    if runs["ja"]:
        # Japanese takes its nouns from the Chinese script.
        runs["ja"] += runs.pop("zh")
    return max(runs, key=runs.__getitem__)


def _count(runs: list[str], least: int) -> int:
    return sum(len(run) for run in runs if len(run) >= least)


def _by_small_words(text: str) -> str:
    score = dict.fromkeys(SMALL_WORDS, 0.0)
    # In capitals it is an abbreviation.
    found = {word: None for word in (ASCII_WORD if text.isascii() else WORD).findall(text) if not word.isupper()}
    seen: set[str] = set()
    for nth, word in enumerate(found):
        plain = word.lower()
        share = NAME_WORTH if nth and word[0].isupper() else 1.0
        if plain in _LANGUAGES and plain not in seen:
            # A word that many languages have says little.
            worth = share * (0.5 if plain in IN_ENGLISH else 1.0) / len(_LANGUAGES[plain])
            for language in _LANGUAGES[plain]:
                score[language] += worth
        elif not plain.isascii() and plain not in seen:
            for language in {OWN_LETTERS[letter] for letter in OWN_LETTERS.keys() & set(plain)}:
                score[language] += share * LETTER_WORTH
        seen.add(plain)
    score["es"] += bool(OWN_SIGNS & set(text))
    best = max(score, key=lambda language: (score[language], language == ENGLISH))
    sure = SURE * (1.0 if len(text) <= SHORT else 1.5)
    return best if score[best] and (best == ENGLISH or score[best] >= sure) else ""
