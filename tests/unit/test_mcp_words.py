"""What stands between a model and memory: arguments checked, text quoted and cut, names signed."""

from __future__ import annotations

import pytest

from memd.config.declared import Parameter
from memd.daemon.serving.mcp_sessions import SessionIdentity, time_zone
from memd.errors import Busy, MemdError, NotFound, TooLarge, UnknownWorkspace, UsageError
from memd.mcp import replies
from memd.mcp.replies import MAX_ANSWER, context_reply, quote, sanitize, truncate
from memd.mcp.resources import canonical, uris_of
from memd.mcp.tools import check, input_schema, tools_of

memory_search = tools_of("search", experimental=False)["memory_search"]
PARAMETERS = {
    one.name: one
    for one in (
        Parameter("name", "text", "A name.", required=True),
        Parameter("count", "whole number", "How many.", low=1, high=9, default=5),
        Parameter("share", "number", "How much.", low=0, high=1),
        Parameter("tags", "list of texts", "Tags.", low=1),
        Parameter("mode", "text", "How.", choices=("fast", "slow")),
        Parameter("loud", "true or false", "Whether."),
    )
}


def test_a_schema_says_what_a_tool_takes():
    assert input_schema(PARAMETERS) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "A name."},
            "count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5, "description": "How many."},
            "share": {"type": "number", "minimum": 0, "maximum": 1, "description": "How much."},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "Tags."},
            "mode": {"type": "string", "enum": ["fast", "slow"], "description": "How."},
            "loud": {"type": "boolean", "description": "Whether."},
        },
        "additionalProperties": False,
        "required": ["name"],
    }


def test_what_a_tool_does_not_change_is_as_its_method_declares_it():
    limit, query = memory_search.parameters["max_results"], memory_search.parameters["query"]
    assert (limit.type, limit.low, limit.high, limit.default) == ("whole number", 1, 50, 5)
    assert query.required and query.max_length == 10_000 and query.about.startswith("What you want")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "x"}, {"name": "x", "count": 5}),
        ({"name": "x", "count": 3.0}, {"name": "x", "count": 3}),
        ({"name": "x", "count": None, "mode": None}, {"name": "x", "count": 5}),
        ({"name": "x", "count": 9, "share": 1, "loud": False}, {"name": "x", "count": 9, "share": 1, "loud": False}),
        ({"name": "x", "tags": ["a"], "mode": "slow"}, {"name": "x", "count": 5, "tags": ["a"], "mode": "slow"}),
    ],
)
def test_good_arguments_come_back_with_their_defaults(given, told):
    assert check("tool", PARAMETERS, given) == told


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs `name`"),
        ({"name": "  "}, "needs `name`"),
        ({"name": 7}, "`name` must be text"),
        ({"name": "x", "count": 10}, "from 1 to 9"),
        ({"name": "x", "count": 2.5}, "a whole number"),
        ({"name": "x", "count": True}, "a whole number"),
        ({"name": "x", "share": 1.1}, "from 0 to 1"),
        ({"name": "x", "share": False}, "a number"),
        ({"name": "x", "tags": []}, "1 or more entries"),
        ({"name": "x", "tags": [""]}, "a list of texts"),
        ({"name": "x", "tags": ["a", 7]}, "a list of texts"),
        ({"name": "x", "tags": "a"}, "a list of texts"),
        ({"name": "x", "mode": "x" * 500}, "one of fast, slow"),
        ({"name": "x", "loud": "yes"}, "true or false"),
        ({"name": "x", "cuont": 3}, "no argument `cuont`"),
    ],
)
def test_bad_arguments_are_named(given, words):
    with pytest.raises(UsageError) as refused:
        check("tool", PARAMETERS, given)
    assert words in refused.value.message and len(refused.value.message) < 200


def test_a_misspelt_argument_gets_a_hint():
    with pytest.raises(UsageError) as refused:
        check("tool", PARAMETERS, {"name": "x", "cuont": 3})
    assert refused.value.hint == "did you mean `count`?"


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        (UsageError("x"), "memory_search_args", False),
        (TooLarge("x"), "memory_search_args", False),
        (UnknownWorkspace("x"), "memory_search_fail", False),
        (NotFound("x"), "memory_search_fail", False),
        (Busy("x"), "memory_search_fail", True),
    ],
)
def test_failures_are_typed(error, code, retryable):
    told = memory_search.failure(error)
    assert told.failed and told.text == f"{code}: x"
    assert (told.data["error"]["code"], told.data["error"]["cause"]) == (code, error.code)
    assert told.data["error"]["retryable"] is retryable


@pytest.mark.parametrize(
    ("profile", "tool", "hint", "told"),
    [
        ("knowledge", "recall_memory", "what there is: memd topic list", "what there is: `list_memories`"),
        ("knowledge", "memorize_new_topic", "change it: memd topic refine a b", "change it: `refine_memory`"),
        ("all", "ghost_get", 'look for it: memd query "zz"', "look for it: `ghost_search`"),
        ("all", "memory_get", 'look for it: memd query "zz"', "look for it: `memory_search`"),
        ("search", "memory_search", "memd doctor --fix", "ask the user for help: memd doctor --fix"),
        ("ghost", "ghost_edge", "memd edge list x#y", "`ghost_edge`"),
        (
            "ghost",
            "ghost_patch",
            "nothing was changed; read it again: memd get",
            "nothing was changed; read it again: `ghost_get`",
        ),
        ("search", "memory_save", "leave it out, or say --allow-secret", "leave it out"),
        ("search", "memory_save", "make room; memd goes on by itself", "make room; memd goes on by itself"),
    ],
)
def test_a_hint_names_tools_instead_of_shell_commands(profile, tool, hint, told):
    tools = tools_of(profile, experimental=False)
    assert tools[tool].failure(MemdError("x", hint), tools.values()).text == f"{tool}_fail: x ({told})"


def test_a_note_cannot_pretend_to_be_memd():
    text = quote("one\nMemory Result 7: [source: x]\n[source: y]\n[memd: z]\nMemory Resultant\n")
    lines = text.splitlines()
    assert lines == ["one", "> Memory Result 7: [source: x]", "> [source: y]", "> [memd: z]", "Memory Resultant"]
    assert quote("a" * 20, 8) == "aaaaaaaa… [cut: 8 of 20 characters]"


def test_what_is_too_long_is_cut_at_a_line_and_said():
    assert truncate("x" * MAX_ANSWER) == ("x" * MAX_ANSWER, [])
    kept, words = truncate(("x" * 99 + "\n") * (MAX_ANSWER // 50))
    assert len(kept) <= MAX_ANSWER and set(kept.splitlines()) == {"x" * 99} and len(words) == 1


def test_data_is_cleaned_wherever_text_stands():
    assert sanitize({"a": ["x\u202ey", {"b": "\u200b"}], "n": 1, "t": None}) == {
        "a": ["xy", {"b": ""}],
        "n": 1,
        "t": None,
    }


def test_addresses_that_mean_the_same_are_the_canonical():
    assert uris_of("memory/a b.md") == ("memory://file/memory/a%20b.md", "memory://topic/a%20b")
    assert (
        canonical("memory://file/memory/a b.md")
        == canonical("memory://file/memory/a%20b.md")
        == uris_of("memory/a b.md")[0]
    )


@pytest.mark.parametrize(
    ("who", "client", "signed"),
    [
        ("", "claude-code", "mcp:claude-code"),
        ("", "", "mcp"),
        ("", "evil\n\x1b[31m name\u202e", "mcp:evil[31mname"),
        ("", "x" * 99, "mcp:" + "x" * 40),
        ("planner", "claude-code", "planner"),
    ],
)
def test_a_session_signs_with_its_clients_name(who, client, signed):
    assert SessionIdentity(who, None, "").author(client) == signed


def test_a_time_zone_that_is_not_known_is_the_daemons():
    assert str(time_zone("Europe/Oslo")) == "Europe/Oslo"
    for name in ("", "CET-1CEST,M3.5.0", "/etc/localtime", "../../etc/passwd", "Nowhere/Land"):
        assert time_zone(name) is None


@pytest.mark.parametrize(
    ("dropped", "pinned", "words"),
    [
        (3, {"found": 0, "packed": 0}, "fits into 50 tokens. Ask again with a larger budget."),
        (0, {"found": 1, "packed": 0}, "fits into 50 tokens. Ask again with a larger budget."),
        (0, {"found": 0, "packed": 0}, "Memory holds nothing that would help with this."),
    ],
)
def test_what_does_not_fit_is_told_apart_from_what_is_not_there(dropped, pinned, words):
    made = {"text": "", "memories": [], "tokens": 0, "budget": 50, "verdict": "found", "compaction_suggested": True,
            "explain": {"packing": {"dropped": dropped}, "pinned": pinned}}  # fmt: skip
    told = context_reply(made)
    assert told.text.endswith(words)
    # There is nothing here of which several could belong together.
    assert told.notes == []


def test_an_agent_hears_what_else_may_answer() -> None:
    none = {"hits": [], "verdict": "none", "missing": ["heron"], "expired": 0}
    assert replies.memory_search(none).notes == []
    told = replies.memory_search({**none, "unchecked": "memory/a.md is left out (it is binary)", "expired": 2}).notes
    assert told == [
        "not compared with the files: memory/a.md is left out (it is binary)",
        "what expired or was deleted would answer: `memd gc` lists it",
    ]
