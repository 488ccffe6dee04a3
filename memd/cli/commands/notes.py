"""`memd note`, `memd save`, `memd write`, `memd read`, `memd recent` and `memd topic`."""

import typer

from memd.cli import console
from memd.cli.method_command import Args, Result, call, command_group, method_command, text_of, wire_params
from memd.errors import NotFound, in_shell
from memd.protocol.client import Client
from memd.protocol.safe_text import neutralise, one_line

app = typer.Typer()


@method_command(app, "note", words="text")
def note(result: Result, args: Args) -> None:
    """Writes something down in today's note.

    It becomes a section with the time and the title. Your time zone decides which day it is.
    """
    console.line(f"Noted in {result['path']} ({result['key']})")


@method_command(app, "save", words="text")
def save(result: Result, args: Args) -> None:
    console.line(result["saved"])


@method_command(app, "write", words="text")
def write(result: Result, args: Args) -> None:
    console.line(f"Written to {result['path']} ({result['key']})")


@method_command(app, "read")
def read(result: Result, args: Args) -> None:
    console.quoted(result["text"])
    console.note_author(result)


@method_command(app, "recent")
def recent(result: Result, args: Args) -> None:
    nothing = f"nothing was written down in the last {args['days'] or 7} days; --days looks further back"
    console.quoted(result["text"], nothing)


# --- topic: one topic a file, and an index that lists them --------------------------------------------------------

topic_app = command_group(app, "topic", "Keeps knowledge by topic.")


@method_command(topic_app, "topic.memorize", words="content")
def memorize(result: Result, args: Args) -> None:
    """Memorizes a new topic; fails if it exists."""
    console.line(f"Memorized {args['topic']} ({result['path']})")


@method_command(topic_app, "topic.refine", words="content")
def refine(result: Result, args: Args) -> None:
    console.line(f"Refined {args['topic']} ({result['path']})")


@method_command(topic_app, "topic.forget")
def forget(result: Result, args: Args) -> None:
    """Deletes a topic's file and removes it from the index; memd undo brings it back."""
    if result["kept"]:
        console.note(f"its file stays: {result['kept']}")
    console.line(f"Forgot {args['topic']}" if result["deleted"] else f"Took {args['topic']} from the index")


@method_command(topic_app, "topic.recall")
def recall(result: Result, args: Args) -> None:
    console.out(neutralise(result["markdown"]).removesuffix("\n"))
    console.note_author(result)


def _general(client: Client, params: Args, args: Args) -> Result:
    if args["set"] is None:
        return call(client, "topic.general", params)
    content = text_of([args["set"]], "text")
    return call(client, "topic.set_general", wire_params(client, "topic.set_general", {**args, "content": content}))


@method_command(
    topic_app, "topic.general", send=_general,
    exit_code=lambda result: 0 if result.get("content", True) else NotFound.exit_code,
)  # fmt: skip
def general(result: Result, args: Args) -> None:
    """Shows the general project knowledge, or replaces it."""
    if args["set"] is not None:
        console.line(f"Memorized as general knowledge ({result['path']})")
    elif result["content"]:
        console.out(neutralise(result["content"]))
        console.note_author(result)
    else:
        console.note("there is no general knowledge yet; begin: memd topic general --set TEXT")


@method_command(topic_app, "topic.search", exit_code=lambda result: 0 if result["topics"] else NotFound.exit_code)
def search(result: Result, args: Args) -> None:
    console.line(result["text"])


@method_command(topic_app, "topic.list", name="list")
def list_topics(result: Result, args: Args) -> None:
    """Lists the topics, separated by commas."""
    console.out(one_line(result["text"]), "there are no topics yet; begin: memd topic memorize TOPIC TEXT")
    for entry in result["missing"]:
        forget = f"memd topic forget {in_shell(entry['topic'])}"
        console.note(f"the index lists {entry['topic']}, but its file is gone: {forget}")
