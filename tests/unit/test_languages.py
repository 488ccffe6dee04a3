"""What language a text is in, and which days it names in ten of them."""

from __future__ import annotations

from datetime import date

import pytest

from memd.indexer.language.languages import foreign_language, language_of
from memd.indexer.language.times import question_times, spans

TODAY = date(2026, 2, 18)
"""A Wednesday."""

YESTERDAY, LAST_WEEK = ("2026-02-17", "2026-02-17"), ("2026-02-09", "2026-02-15")
THREE_DAYS_AGO, VALENTINE = ("2026-02-15", "2026-02-15"), ("2026-02-14", "2026-02-14")
LAST_MONDAY = ("2026-02-16", "2026-02-16")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("昨天我们做了什么？", YESTERDAY), ("2月14日", VALENTINE), ("上周的会议", LAST_WEEK),
        ("三天前", THREE_DAYS_AGO),
        ("上周五", ("2026-02-13", "2026-02-13")), ("去年三月", ("2025-03-01", "2025-03-31")),
        ("2025年12月24日", ("2025-12-24", "2025-12-24")), ("二月十四日", VALENTINE),
        ("先週の会議", LAST_WEEK), ("一昨日の夕食", ("2026-02-16", "2026-02-16")), ("3日前に", THREE_DAYS_AGO),
        ("先週の月曜日", ("2026-02-09", "2026-02-09")),
        ("어제 뭐 했어", YESTERDAY), ("지난주 회의", LAST_WEEK), ("2월 14일", VALENTINE), ("3일 전", THREE_DAYS_AGO),
        ("Was haben wir gestern gemacht?", YESTERDAY), ("letzte Woche", LAST_WEEK), ("am 14. Februar", VALENTINE),
        ("vor drei Tagen", THREE_DAYS_AGO), ("letzten Montag", LAST_MONDAY),
        ("Qu'avons-nous fait hier ?", YESTERDAY), ("la semaine dernière", LAST_WEEK), ("le 14 février", VALENTINE),
        ("il y a trois jours", THREE_DAYS_AGO), ("lundi dernier", LAST_MONDAY),
        ("¿Qué hicimos ayer?", YESTERDAY), ("la semana pasada", LAST_WEEK), ("el lunes pasado", LAST_MONDAY),
        ("el 14 de febrero de 2025", ("2025-02-14", "2025-02-14")), ("hace tres días", THREE_DAYS_AGO),
        ("o que fizemos ontem", YESTERDAY), ("na semana passada", LAST_WEEK), ("14 de fevereiro", VALENTINE),
        ("cosa abbiamo fatto ieri", YESTERDAY), ("la settimana scorsa", LAST_WEEK), ("il 14 febbraio", VALENTINE),
        ("tre giorni fa", THREE_DAYS_AGO),
        ("что мы делали вчера", YESTERDAY), ("на прошлой неделе", LAST_WEEK), ("14 февраля", VALENTINE),
        ("три дня назад", THREE_DAYS_AGO), ("в прошлый понедельник", LAST_MONDAY),
        ("wat hebben we gisteren gedaan", YESTERDAY), ("vorige week", LAST_WEEK), ("op 14 februari", VALENTINE),
        ("drie dagen geleden", THREE_DAYS_AGO),
    ],
)  # fmt: skip
def test_days_are_named_in_ten_languages(text: str, days: tuple[str, str]) -> None:
    (span,) = spans(text, TODAY)
    assert (span.first.isoformat(), span.last.isoformat()) == days


@pytest.mark.parametrize(
    "text", ["Mars rover landed", "the mes module", "三个人", "天気がいい", "die Tagung", "二五天前"]
)
def test_what_only_looks_like_a_time_is_none(text: str) -> None:
    assert spans(text, TODAY) == []


def test_a_question_for_when_is_one_in_every_language() -> None:
    for text in ("Wann läuft das Backup?", "什么时候备份？", "¿Cuándo fue?", "いつ会いましたか", "Когда это было?"):
        assert question_times(text, TODAY).temporal


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("When did we fix the login bug?", "en"), ("ErsatzTV", ""), ("Los Angeles trip", ""), ("TNFα PPARγ levels", ""),
        ("数据库监听端口5433。", "zh"), ("会議は先週でした", "ja"), ("회의는 지난주였다", "ko"),
        ("База данных слушает порт", "ru"),
        ("Meeting with 王伟 about 项目", "zh"), ("Der Router steht im Keller.", "de"),
        ("Le routeur est dans la cave.", "fr"),
        ("El router está en el sótano.", "es"), ("Il router è in cantina.", "it"), ("O router não está na cave.", "pt"),
        ("De router staat niet in de kelder.", "nl"), ("Router piwnicy jest w domu.", "pl"),
        ("A note about `der die das und ist` in the code", "en"),
    ],
)  # fmt: skip
def test_the_language_of_a_text(text: str, language: str) -> None:
    assert language_of(text) == language
    assert foreign_language(text) == ("" if language == "en" else language)


@pytest.mark.parametrize(
    "text",
    [
        "door code", "green door key", "man page", "os update", "comment spam", "come back", "I've slow tools",
        # One special letter, a name, a loan.
        "jalapeño recipe", "São Paulo office", "Rio de Janeiro flight", "Łukasz PR", "Erdoğan", "Dvořák concert",
        "Über receipt", "Łukasz Wałęsa meeting", "im not sure about the café",
    ],
)  # fmt: skip
def test_english_key_words_are_taken_for_no_other_language(text: str):
    assert foreign_language(text) == ""
