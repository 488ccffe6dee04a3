"""What is indexed and what is searched: stems, accents, identifiers, scripts without spaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from benchmarks import whoosh_scorer
from memd.indexer.language import languages
from memd.indexer.language.words import is_english, query_terms, terms_of, words
from memd.indexer.model.granite import find_pack, read_pack


def found(text: str, question: str) -> bool:
    """Whether a question's words meet a text's words."""
    terms, exact = terms_of(text)
    wanted_terms, wanted_exact = whoosh_scorer.query_terms(question)
    return bool(set(terms) & set(wanted_terms) or set(exact) & set(wanted_exact))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("the backups failed", "backup failing"),
        ("Grüße aus Zürich", "zurich"),
        ("a café nearby", "cafe"),
        ("un cafe\u0301", "café"),
        ("ErsatzTV runs", "ersatztv"),
        ("ErsatzTV runs", "ersatz"),
        ("call getUserById()", "user"),
        ("call getUserById()", "getUserById"),
        ("snake_case_name", "case"),
        ("kebab-case-name", "kebab-case-name"),
        ("os.path.join", "path"),
        ("os.path.join", "os.path.join"),
        ("HTTPServer2", "server"),
        ("at 192.0.2.18:8409", "8409"),
        ("at 192.0.2.18:8409", "192.0.2.18"),
        ("Pierce's disk", "pierce"),
        ("Pierce’s disk", "pierce"),
        ("京都に行きました", "京都"),
        ("黒い猫がいる", "猫"),
        ("我们去了北京", "北京"),
        ("ｆｕｌｌ width", "full"),
        ("สวัสดีครับ", "สวัสดี"),
        ("हिन्दी भाषा", "भाषा"),
        ("Привет, мир", "мир"),
        ("한국어 공부", "한국어"),
        ("STRASSE", "straße"),
        ("she bought a lamp", "what did she buy"),
        ("the children's room", "child"),
        ("for 1,899 EUR", "1899"),
        ("for 1899 EUR", "1,899"),
        ("for 1.899 EUR", "1,899"),
        ("for 3,212.77 GBP", "3212"),
        ("about 1\u202f250\u202f000 people", "1250000"),
        ("states 401,403", "403"),
        ("they have two cats", "2 cats"),
        ("my favourite colour", "favorite"),
        ("Vu avec l'équipe", "equipe"),
        ("Vu avec l’équipe", "équipe"),
        ("avec l'équipe et d'Élodie", "elodie"),
        ("L'ÉTÉ", "ete"),
        ("avant l'été", "l'ete"),
        ("jusqu'à demain, qu'Élodie", "elodie"),
        ("la città dell'Università", "universita"),
        ("vu l'avant-hier", "hier"),
        ("Lech Wałęsa", "walesa"),
        ("Ørsted", "orsted"),
        ("ŁÓDŹ", "lodz"),
        ("une œuvre", "oeuvre"),
        ("by 🚲 to work", "🚲"),
        ("✅ done", "✅"),
        ("die Donau\u00addampf\u00adfahrt", "Donaudampffahrt"),
        ("the type\u00adset word", "typesetting type\u00adset"),
        ("Þór og Æsir", "thor"),
        ("Diyarbakır", "diyarbakir"),
    ],
)
def test_a_question_meets_its_text(text: str, question: str):
    assert found(text, question)


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("the cat", "dog"),
        ("東京", "京都"),
        ("general", "generous"),
        ("192.168.0.100", "1921680100"),
        ("8,1", "81"),
        ("don't we'll", "t"),
        ("l'été", "l"),
        ("we'll see", "ll"),
    ],
)
def test_what_should_not_meet_does_not(text: str, question: str):
    assert not found(text, question)


def test_question_words_are_dropped_unless_they_are_all_there_is():
    assert query_terms("what is the backup") == ["backup"]
    assert query_terms("who is")
    assert query_terms("?!  …") == []


@given(st.text(max_size=200))
def test_every_word_stands_where_it_says(text: str):
    last = 0
    for word in words(text):
        assert 0 <= word.start < word.end <= len(text)
        assert word.start >= last
        assert word.terms
        assert all(word.terms)
        last = word.start


def test_english_words_are_those_of_the_models_tokenizer() -> None:
    vocabulary = json.loads(read_pack(find_pack()).tokenizer)["model"]["vocab"]
    whole = {token[1:].lower() for token in vocabulary if token.startswith("Ġ") and token[1:].isalpha()}
    usual = sorted(word for word in whole if word.isascii() and len(word) >= 5)
    listed = Path(languages.__file__).with_name("english.txt").read_text(encoding="ascii").splitlines()
    assert listed == usual
    assert is_english("december") and not is_english("decembre") and not is_english("dec")
