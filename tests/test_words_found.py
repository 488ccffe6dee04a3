"""Every word that stands in the notes is found, in every language, mode and state of the vectors."""

from __future__ import annotations

import json
import re
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from memd.config.schema import EmbeddingSettings
from memd.indexer.indexing import ingest
from memd.indexer.language.languages import SMALL_WORDS, language_of
from memd.indexer.language.words import STOPWORDS, UNSPACED
from memd.indexer.model import multilingual
from memd.indexer.model.embedder import load_embedder
from memd.indexer.query.meaning import QuestionFuture
from memd.indexer.store.stores import ActiveModel
from memd.indexer.store.vector_table import embedded_text, sentence_pieces
from memd.models import Answer
from tests.hash_embedder import HashEmbedder
from tests.lab import TODAY, Lab

NOTES = {
    "memory/2026-02-04.md": """# Mittwoch

## Netz

Der Bot von Anthropic bleibt, aber die Verbindung zu Cloudflare wird im März abgeschaltet.
Am Montag wären größere Kisten weiter vorn.

## Küche

Für Nordstern brauchen wir Kartoffeln, Kürbis und 30 Gläser; Jürgen bezeichnete die Suppe als globaler.
""",
    "memory/2026-02-05.md": """# 木曜日

## 打ち合わせ

Raspberryの電源が落ちたので、Grafanaで温度を確認した。
三月の会議では近四年の予算を田中さんが説明する。
""",
    "memory/2026-02-06.md": """# 星期五

## 机房

数据库服务器PostgreSQL在地下室，监听端口5433。
上周我们换了Cisco交换机的风扇。
""",
    "memory/topics/dom.md": """# Дом

Водопроводчик Сергей чинил кран в марте, а Wi-Fi роутер Keenetic стоит за шкафом.
""",
    "memory/topics/bayt.md": """# البيت

السباك يصلح الصنبور يوم الخميس، وجهاز Netgear خلف الخزانة القديمة.
""",
    "memory/topics/spiti.md": """# Σπίτι

Ο υδραυλικός Νίκος έφτιαξε τη βρύση και το Spotify παίζει στην κουζίνα.
""",
    "memory/topics/ev.md": """# Ev

Tesisatçı Çağlar musluğu perşembe günü tamir edecek; Bluetooth hoparlör dolabın arkasında.
""",
    "memory/topics/mixed.md": """# Mixed

The notebook of 山田 says «Москва» and Ελλάδα; yesterday the latest build ran
`cat ~/.openclaw/agents.json` in March 2025 for the jalapeño shop.
""",
}
WORD = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+(?:[-.'’_][^\W_{UNSPACED}]+)*")
UNSPACED_RUN = re.compile(rf"[{UNSPACED}]+")
EXAMPLES = Path(__file__).parent.parent / "examples" / "workspace"

Fill = Callable[[Lab], None]


def questions(text: str, language: str) -> Iterator[str]:
    """Every word, every two neighbours that are not small, and every two characters that no space parts."""
    small = {*SMALL_WORDS.get(language, ()), *STOPWORDS}
    for line in text.splitlines():
        found = list(WORD.finditer(line))
        for run in (word.group() for word in found if UNSPACED_RUN.match(word.group())):
            yield from (run[at : at + 2] for at in range(len(run) - 1))
        told = [(word, word.group()) for word in found if not UNSPACED_RUN.match(word.group())]
        yield from (word for _, word in told)
        for (one, first), (other, second) in pairwise(told):
            if line[one.end() : other.start()] == " " and not {first.casefold(), second.casefold()} & small:
                yield f"{first} {second}"


def has(answer: Answer, question: str) -> bool:
    """Whether one hit has every word of a question."""
    texts = [f"{hit.heading}\n{hit.text}" for hit in answer.hits]
    if UNSPACED_RUN.match(question):
        return any(question in text for text in texts)
    return any(plain_words(question) <= plain_words(text) for text in texts)


def plain_words(text: str) -> set[str]:
    """The words of a text and their pieces."""
    plain = [word.casefold().replace("’", "'").removesuffix("'s") for word in WORD.findall(text)]
    return {piece for word in plain for piece in (word, *re.split("[-._]", word))}


def asked_of(notes: dict[str, str]) -> list[str]:
    return list(dict.fromkeys(one for text in notes.values() for one in questions(text, language_of(text))))


def not_found(lab: Lab, asked: list[str], mode: str) -> list[tuple[str, str, float]]:
    answers = ask_all(lab, asked, mode).items()
    return [(q, one.verdict, one.confidence) for q, one in answers if one.verdict != "found" or not has(one, q)]


def ask_all(lab: Lab, asked: list[str], mode: str) -> dict[str, Answer]:
    """The answers to many questions, which are embedded together: one by one takes minutes."""
    answers = {}
    for at in range(0, len(asked), 200):
        part = asked[at : at + 200]
        for model in filter(None, (lab.stores.model, lab.stores.multilingual) if mode != "text" else ()):
            vectors = model.embedder.embed(part)
            for question, vector in zip(part, vectors, strict=True):
                made = lab.stores.question_vectors[model.id, question] = QuestionFuture()
                made.set_result(vector[None])
        answers |= {question: lab.ask(question, mode=mode) for question in part}
        lab.stores.question_vectors.clear()
    return answers


# --- the states that vectors may be in ------------------------------------------------------------------------


def by_words(lab: Lab) -> None:
    """No model at all."""


def hashed(lab: Lab) -> None:
    lab.stores.use_model(HashEmbedder(), "test")
    lab.embed()


def complete(lab: Lab, part: int = 1) -> None:
    """The real models; every `part`-th chunk has its vectors."""
    model = load_embedder(EmbeddingSettings(), lab.folder / "model")
    assert model is not None
    lab.stores.use_model(model, "test")
    lab.stores.use_multilingual(multilingual.load(lab.folder / "model"))
    assert lab.stores.model is not None and lab.stores.multilingual is not None
    embed(lab, lab.stores.model, "c.language = ''", part)
    embed(lab, lab.stores.multilingual, "c.language > ''", part)


def partial(lab: Lab) -> None:
    complete(lab, 2)


def embed(lab: Lab, model: ActiveModel, among: str, part: int) -> None:
    rows = lab.unembedded(model, among)[::part]
    texts = [embedded_text(json.loads(row["heading"]), row["context"], row["text"]) for row in rows]
    pieces = [sentence_pieces(row["text"]) if model is lab.stores.multilingual else [] for row in rows]
    vectors = [model.embedder.embed([text, *some]) for text, some in zip(texts, pieces, strict=True)]
    if rows:
        ingest.save_vectors(lab.stores, model, rows, vectors)


@pytest.fixture(scope="module", params=[by_words, hashed, partial, complete])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("words"))
    made.add(NOTES)
    request.param(made)
    yield made
    made.close()


# --- the rule -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["hybrid", "text"])
def test_every_word_and_every_two_neighbours_are_found(lab: Lab, mode: str):
    asked = asked_of(NOTES)
    assert len(asked) > 200 and {"Anthropic", "Nordstern", "März", "田中", "Keenetic", "Çağlar"} <= set(asked)
    assert not_found(lab, asked, mode) == []


@pytest.mark.parametrize("mode", ["hybrid", "text"])
def test_a_question_with_one_rare_word_of_the_notes_is_never_none(lab: Lab, mode: str):
    # Days and months are small words.
    words = [word for word in asked_of(NOTES) if len(word) > 4 and word.isalpha() and language_of(word) != "de"]
    asked = [f"{word} qwrtzk plughx xyzzyv" for word in words if word != "latest"]
    assert [question for question, one in ask_all(lab, asked, mode).items() if one.verdict == "none"] == []
    assert lab.ask("qwrtzk plughx xyzzyv", mode=mode).verdict == "none"


def test_every_word_of_the_example_notes_is_found(tmp_path: Path):
    made = Lab(tmp_path, HashEmbedder())
    shutil.copytree(EXAMPLES, tmp_path / "agent")
    notes = {path.name: path.read_text(encoding="utf-8") for path in EXAMPLES.rglob("*.md")}
    made.add({})
    words = [question for question in asked_of(notes) if " " not in question]
    assert len(words) > 1_000
    # `make bench PARTS=words` asks for each of them.
    assert not_found(made, words[::9], "hybrid") == []
    made.close()


@pytest.mark.parametrize(
    "question",
    [
        "what happened on February 5", "what happened in February", "what happened at the beginning of February",
        "what was going on in early February", "was gab es im Februar", "was war Anfang Februar los",
        "que s'est-il passé en février", "qué pasó a principios de febrero", "o que aconteceu em fevereiro",
        "cosa è successo a febbraio", "wat gebeurde er in februari", "что было в феврале",
        "2月に何があった", "2月上旬に何があった？", "二月发生了什么事", "2월에 무슨 일이 있었어",
    ],
)  # fmt: skip
def test_a_time_and_empty_words_are_answered_by_the_time(lab: Lab, question: str):
    answer = lab.ask(question)
    assert answer.verdict == "found"
    assert {hit.path for hit in answer.hits} <= {path for path in NOTES if "2026-02-0" in path}
    assert "memory/2026-02-05.md" in {hit.path for hit in answer.hits}
    assert lab.ask(question.replace("ebruary", "ebruary 1999")).verdict == "none" or "ebruary" not in question


def test_latest_and_newest_are_no_words_that_a_note_must_have(tmp_path: Path):
    made = Lab(tmp_path)
    made.add(
        {f"memory/2026-02-0{day}.md": f"# {day}\n\n## Backup\n\nThe backup took {day} hours.\n" for day in range(1, 6)}
    )
    for question in ("latest backup", "the newest backup", "neueste backup"):
        answer = made.ask(question)
        assert (answer.verdict, answer.missing, answer.hits[0].date) == ("found", (), "2026-02-05"), question
    assert [hit.date for hit in made.ask("what is the latest?").hits][:2] == ["2026-02-05", "2026-02-04"]
    made.close()


@pytest.mark.parametrize("asked", ["NFC", "NFD"])
@pytest.mark.parametrize("noted", ["NFC", "NFD"])
def test_letters_and_their_signs_are_one_however_they_are_stored(tmp_path: Path, noted: str, asked: str):
    """macOS writes them apart in the names of files, and in what is pasted from there."""
    lab = Lab(tmp_path)
    text = "## Zürich\n\nDer Schlüssel liegt im Büro. 회의는 금요일. ガイドは月曜日。\n"
    lab.add({f"memory/{unicodedata.normalize(noted, 'größe')}.md": unicodedata.normalize(noted, text)})
    for word in ("Zürich", "Schlüssel", "Büro", "금요일", "ガイド", "größe"):
        assert lab.ask(unicodedata.normalize(asked, word), mode="text").hits, word
    assert lab.ask("Zürich").hits[0].key.endswith("#zürich")
    lab.close()


def test_an_emoji_is_found_and_is_no_word_that_a_note_must_have(tmp_path: Path):
    lab = Lab(tmp_path)
    lab.add({"memory/a.md": "## Work\n\nBy 🚲 in summer.\n", "memory/b.md": "## Winter\n\nBy train in winter.\n"})
    assert [(answer.verdict, answer.hits[0].path) for answer in (lab.ask("🚲"), lab.ask("🚲", mode="text"))] == [
        ("found", "memory/a.md")
    ] * 2
    thanks = lab.ask("by train 🎉")
    assert (thanks.verdict, thanks.missing, thanks.hits[0].path) == ("found", (), "memory/b.md")
    lab.close()


def test_a_match_in_code_alone_is_weak_for_a_question_in_prose(tmp_path: Path):
    shell = (
        "## Config\n\nTo read it run\n\n```\ncat ~/.openclaw/openclaw.json\n```\n\n## Server\n\nIts name is fjord.\n"
    )
    made = Lab(tmp_path)
    made.add({"MEMORY.md": shell, "memory/2026-02-03.md": "## Server\n\nThe name of the server in Oslo is fjord.\n"})
    assert made.ask("what is the name of my cat").verdict == "weak"
    for question in ("cat", "openclaw", "cat openclaw", "what is openclaw"):
        assert made.ask(question).verdict == "found", question
    # In prose it is what was asked for.
    made.save({"MEMORY.md": f"{shell}\n## Home\n\nThe cat sleeps on the sofa.\n"})
    assert made.ask("what is the name of my cat").verdict == "found"
    made.close()


def test_today_is_the_day_of_these_questions():
    assert TODAY.isoformat().startswith("2026-02")


@pytest.mark.parametrize("asked", ["Huseyin Bey", "hüseyin bey", "cafe creme", "Café Crème"])
def test_a_phrase_is_found_with_and_without_accents(tmp_path: Path, asked: str):
    lab = Lab(tmp_path)
    lab.add({"memory/a.md": "Hüseyin Bey has the key. Café Crème is open.\n", "memory/b.md": "The key is lost.\n"})
    assert [hit.path for hit in lab.ask(f'"{asked}"', mode="text").hits] == ["memory/a.md"]
    assert [hit.path for hit in lab.ask(f'key -"{asked}"', mode="text").hits] == ["memory/b.md"]
    lab.close()
