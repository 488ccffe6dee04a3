"""How memories age: `useful`, `reflect`, `sync_state`, `curate`, `rule.list`, `rule.set`, `rule.rm` and `rule.test`."""

from typing import Annotated, Any, Literal, TypedDict

from memd.protocol.methods import base


class RuleRow(TypedDict):
    """A rule by which memories age."""

    name: str
    enabled: bool
    """Whether it is applied."""
    origin: str
    """`built-in`, `changed` or `own`."""
    of_pairs: bool
    """It looks at two memories at a time."""
    rule: str
    doc: str
    """What it is for."""


class RuleListResult(base.Fresh):
    """The answer of `rule.list`."""

    rules: list[RuleRow]


class RuleListRequest(base.Request, method="rule.list", result=RuleListResult, reads=True):
    """Lists the rules by which memories age, in the order in which they are applied."""


class RuleSetResult(base.Fresh):
    """The answer of `rule.set`."""

    rule: RuleRow


class RuleSetRequest(base.Request, method="rule.set", args="name rule", result=RuleSetResult):
    """Adds a rule, changes one, or switches it on or off."""

    name: base.Text
    """Small letters, digits and dashes; `sys-` before it is ignored."""
    rule: base.Text
    """The rule; or `on` or `off`, which keep its text."""


class RuleRmResult(base.Fresh):
    """The answer of `rule.rm`: what holds under the name now."""

    name: str
    removed: bool
    rule: RuleRow | None


class RuleRmRequest(base.Request, method="rule.rm", args="name", result=RuleRmResult):
    """Removes a rule of one's own, or gives a built-in one its own text back."""

    name: base.Text
    """The rule's name."""


class RuleTestResult(base.AcrossWorkspaces):
    """The answer of `rule.test`."""

    memories: int
    moved: int
    faded: int
    matches: list[dict[str, Any]]
    rules: list[str]
    of_pairs: list[str]


class RuleTestRequest(base.Scoped, method="rule.test", args="rule", result=RuleTestResult, reads=True, slow=True):
    """Returns what the rules, or one of them, would do now and why; changes nothing."""

    rule: Annotated[str, base.unset("all")] = ""
    """One rule alone, by its name or its text, also one that is switched off."""
    limit: base.Rows = 50
    """At most this many `matches`, up to 1,000."""


class CurateResult(base.Written):
    """The answer of `curate`: what was changed, what it was and what it is."""

    what: str
    before: Any
    after: Any
    changed: bool
    verb: str


class CurateRequest(base.Writing, method="curate", args="key verb", result=CurateResult):
    """Moves, boosts, pins or lays aside one memory, because someone says so."""

    key: base.Key
    verb: Literal["promote", "demote", "archive", "delete", "boost", "diminish", "pin", "unpin"]
    """The action."""


class UsefulResult(base.Fresh):
    """The answer of `useful`."""

    ns: str
    key: str
    action: int
    useful: int


class UsefulRequest(base.Writing, method="useful", args="key", result=UsefulResult):
    """Counts that a memory was of use to someone."""

    key: base.Key


class ReflectResult(base.AcrossWorkspaces):
    """The answer of `reflect`: a report of each workspace."""

    dry_run: bool
    workspaces: list[dict[str, Any]]


class ReflectRequest(base.Scoped, base.Signed, method="reflect", result=ReflectResult, slow=True):
    """Applies the rules now: moves and links memories, and reports what a person should look at."""

    dry_run: bool = False
    """Report what the rules say, and change nothing."""


class SyncStateResult(base.WithinWorkspace):
    """The answer of `sync_state`."""

    state_file: str
    """This machine's own file, relative to the workspace."""
    others: int
    """How many other machines have one."""
    written: int
    """Lines that were added to our own."""
    memories: int
    """Memories whose life changed by what others observed."""
    edges: int
    elsewhere: int
    """Memories and edges that others know and that are not here."""
    garbage: list[str]
    """Lines that were not understood and left out, with the reason."""


class SyncStateRequest(
    base.OneWorkspace, base.Signed, method="sync_state", result=SyncStateResult, slow=True, local=True
):
    """Exchanges what was observed of memories with other machines, by a file for each under `memory/.memd`."""
