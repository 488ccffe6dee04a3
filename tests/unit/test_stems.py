"""Words of other languages by their stems, German compounds by their parts, and days in ten languages, in a search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import Lab

NOTES = {
    "MEMORY.md": """# Notizen

## Keller

Die Häuser in der Straße haben keine Keller, nur das letzte Haus hat einen.

## Eingang

Der Haustürschlüssel liegt unter dem Stein neben der Treppe.

## Werkstatt

Der Bohrer ist in der Werkstatt, und die Schrauben sind im Regal.

## Sauvegardes

Les sauvegardes sont faites chaque nuit sur le serveur de la cave.

## Роутер

Пароль от роутера записан в синей тетради на кухне.

## English

The boxes with the notes are under the desk of the office.
""",
    "memory/2026-02-17.md": "# Dienstag\n\n## Besuch\n\nAnna war da und hat die Heizung repariert.\n",
    "memory/2026-02-14.md": "# 二月\n\n## 晚餐\n\n我们在海边的餐厅吃了晚餐。\n",
    "memory/2026-02-10.md": "# 会議\n\n## 予算\n\n来年の予算について話しました。\n",
    "memory/2026-01-05.md": "# Januar\n\n## Besuch\n\nBernd war da und hat den Zaun gestrichen.\n",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(Path(tmp_path_factory.mktemp("stems")))
    made.add(NOTES)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Welches Haus hat einen Keller?", "MEMORY#keller"),
        ("Wo sind die Schlüssel für die Haustür?", "MEMORY#eingang"),
        ("Wo ist der Werkstattbohrer?", "MEMORY#werkstatt"),
        ("Werkstattbohrer", "MEMORY#werkstatt"),
        ("officedesk", "MEMORY#english"),
        ("Quand est faite la sauvegarde des serveurs ?", "MEMORY#sauvegardes"),
        ("Где пароли от роутеров на кухне?", "MEMORY#роутер"),
        ("where is the box with the note", "MEMORY#english"),
        ("Was haben wir gestern gemacht?", "2026-02-17#besuch"),
        ("2月14日", "2026-02-14#晚餐"),
        ("2月14日我们做了什么？", "2026-02-14#晚餐"),
        ("先週の火曜日に何をしましたか", "2026-02-10#予算"),
    ],
)
def test_words_and_days_of_other_languages_are_found(lab: Lab, question: str, key: str) -> None:
    answer = lab.ask(question, mode="text")
    assert (answer.hits[0].key, answer.verdict) == (key, "found")
    assert not answer.corrected


def test_stems_of_another_language_are_never_shown(lab: Lab) -> None:
    answer = lab.ask("Welche Häuser haben keine Zentralheizungen?", mode="text")
    assert not any("ǀ" in word for word in (*answer.missing, *answer.corrected))


@pytest.mark.parametrize(
    ("question", "missing"), [("東京の予算", ("東京",)), ("来年の旅費", ("旅費",)), ("銀座", ("銀座",)), ("予算", ())]
)
def test_words_without_spaces_that_no_note_has_are_named_whole(
    lab: Lab, question: str, missing: tuple[str, ...]
) -> None:
    assert lab.ask(question, mode="text").missing == missing
