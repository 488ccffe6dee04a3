"""Memories by their key and what they declare: `put`, `patch`, `rm`, `gc`, `files` and the tags."""

from typing import Annotated, Any, Literal, NotRequired

from memd.errors import UsageError
from memd.models import Kind, Priority, Tier
from memd.protocol.methods import base

FileRelation = Literal["modified", "created", "deleted", "read"]


class Expecting(base.Writing):
    """Changes a memory, which may have to be at a version."""

    if_version: Annotated[Annotated[int, base.between(0, base.MAX_NUMBER)] | None, base.unset("any")] = None
    """The version that it must have now, else `version_conflict`; 0: it must be new."""


class PatchResult(base.Written):
    """The answer of `patch`."""

    version: int | None


class PutResult(PatchResult):
    """The answer of `put`."""

    written: bool
    similar: list[dict[str, Any]]


class PutRequest(base.Timed, Expecting, method="put", args="key text", result=PutResult):
    """Writes a memory under a key: a new one, or the next version of one that is there."""

    key: base.Key
    """The key; a new one is the name of a file without its suffix."""
    text: Annotated[str | None, base.unset("as it is")] = None
    """The text; without it, facts of a memory that is there are changed."""
    kind: Annotated[Kind | None, base.unset("as it is")] = None
    """The kind of memory."""
    tags: Annotated[base.Texts | None, base.unset("as they are")] = None
    """Its tags, in place of those that it declares."""
    priority: Annotated[Priority | None, base.unset("as it is")] = None
    """How much it matters."""
    importance: Annotated[base.Share | None, base.unset("as it is")] = None
    """The same as a number from 0 to 1."""
    pinned: Annotated[bool | None, base.unset("as it is")] = None
    """It never ages."""
    tier: Annotated[Tier | None, base.unset("as it is")] = None
    """Where a new memory begins; `sensory` is for raw captures."""
    ttl: Annotated[str | None, base.unset("as it is")] = None
    """`90m`, `12h`, `30d`, `2w`, `1y`: how long it is an answer to questions; `none`: always."""
    files: Annotated[base.Texts, base.unset("none")] = ()
    """Files it is about, `PATH:REL`, added to those that it declares; REL as in `files`."""
    on_similar: Literal["keep", "update", "skip"] = "keep"
    """A new key when a memory says nearly the same: `keep` writes it, `update` writes to that
    memory instead, `skip` writes nothing."""


class PatchRequest(Expecting, method="patch", args="key patch", result=PatchResult):
    """Applies a unified diff to a memory, exactly or not at all."""

    key: base.Key
    patch: str = ""
    """The diff."""


class RmResult(base.Written):
    """The answer of `rm`."""

    hard: bool
    purged: NotRequired[dict[str, Any]]
    kept: NotRequired[list[dict[str, Any]]]


class RmRequest(base.Writing, method="rm", args="key", result=RmResult, slow=True):
    """Removes a memory from its file; with `hard`, from the history and the caches too."""

    key: base.Key
    """The memory; with `hard` also one that is gone already."""
    hard: Annotated[bool, base.local()] = False
    """Forget it for good."""


class GcResult(base.AcrossWorkspaces):
    """The answer of `gc`."""

    expired: list[dict[str, Any]]
    hard: bool
    purged: list[Any]
    dormant: list[dict[str, Any]]
    dormant_total: int


class GcRequest(base.Scoped, base.Signed, method="gc", result=GcResult, slow=True):
    """Lists the memories that were deleted or whose ttl has run out, and with `hard` forgets them for good."""

    hard: Annotated[bool, base.local()] = False
    """Forget them."""
    dry_run: bool = False
    """Only list, also with `hard`."""


class FilesResult(base.Fresh):
    """The answer of `files`: the files of a memory, or the memories of a file; of a write also what `Written` has."""

    ns: str | list[str]
    files: NotRequired[list[dict[str, str]]]
    memories: NotRequired[list[dict[str, Any]]]
    root: NotRequired[str]
    key: NotRequired[str]
    action: NotRequired[int | None]
    paths: NotRequired[list[str]]
    conflicts: NotRequired[list[str]]
    repeated: NotRequired[bool]
    visible: NotRequired[str]


class FilesRequest(base.Writing, method="files", args="key", result=FilesResult):
    """Returns which files a memory is about, or which memories are about a file; or adds one."""

    key: str = ""
    """The memory; it or `touching` is needed."""
    touching: str = ""
    """A file or a folder."""
    add: Annotated[str, base.unset("none")] = ""
    """A file that the memory is about."""
    rel: FileRelation = "modified"
    """Its relation to the file."""

    def check(self) -> None:
        if bool(self.key) == bool(self.touching) or (self.touching and self.add):
            ways = "memd files KEY, memd files KEY --add PATH, or memd files --touching PATH"
            raise UsageError("`files` needs a `key`, or a path in `touching`", ways)

    @property
    def changes(self) -> bool:
        return bool(self.add)


class TagListResult(base.AcrossWorkspaces):
    """The answer of `tag.list`."""

    tags: list[dict[str, Any]]


class TagListRequest(base.Scoped, method="tag.list", result=TagListResult, reads=True):
    """Lists the tags, with the number of memories that have them."""


class RetagResult(base.Written):
    """The answer of `tag.rename` and `tag.rm`."""

    dry_run: bool
    diff: str


class Retagging(base.Writing):
    """The parameters that `tag.rename` and `tag.rm` share."""

    tag: base.Text
    """The tag as it is."""
    dry_run: bool = False
    """Only show what would change; `action` is `null` then."""


class TagRenameRequest(Retagging, method="tag.rename", args="tag to", result=RetagResult):
    """Renames a tag in all files at once."""

    to: base.Text
    """The tag as it shall be."""


class TagRmRequest(Retagging, method="tag.rm", args="tag", result=RetagResult):
    """Removes a tag from all files at once."""
