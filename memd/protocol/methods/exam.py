"""How well questions are answered: `eval`, and with another embedding model, `model.try`."""

from typing import Annotated, Any, NotRequired

from memd.errors import UsageError
from memd.protocol.methods import base


class EvalResult(base.AcrossWorkspaces):
    """The answer of `eval`."""

    mode: str
    questions: int
    figures: dict[str, float]
    categories: NotRequired[dict[str, Any]]
    mean_length: NotRequired[float]
    p50_ms: float
    p95_ms: float
    missed: int
    misses: list[dict[str, Any]]
    problems: NotRequired[list[dict[str, Any]]]


class EvalRequest(base.Scoped, base.Progressing, method="eval", args="path", result=EvalResult, reads=True, local=True):
    """Scores questions whose answers are known, or probes made from the notes."""

    path: Annotated[str, base.place(opened=True)] = ""
    """A file of questions, absolute or with `~`: one JSON object a line."""
    questions: list[dict[str, Any]] | None = None
    """The questions themselves."""
    self_: bool = False
    """Ask probes made from the notes."""
    mode: base.Mode = "hybrid"
    """As in `query`."""
    limit: Annotated[int, base.between(0, base.MAX_HITS)] = 10
    """Hits to ask for, at least 10; 0 means 200."""

    def check(self) -> None:
        if (bool(self.path), self.questions is not None, self.self_).count(True) != 1:
            raise UsageError("`eval` needs one of `path`, `questions` and `self`", "for example: memd eval --self")


class ModelTryResult(base.Fresh):
    """The answer of `model.try`."""

    probes: int
    passages: int
    models: list[dict[str, Any]]
    """The one in use, then the other: `name`, `dims`, how many probes found their passage `first`, in the `first_5` and
    in the `first_10`, `ms_note`, `ms_question`, and `scale`."""


class ModelTryRequest(base.Progressing, method="model.try", args="place", result=ModelTryResult, reads=True):
    """Asks probes made from the notes with another model, by meaning alone, and changes nothing."""

    place: base.Text
    """A folder with an ONNX export, or the address of a server, which gets up to 500 passages of the notes."""
    name: str = ""
    """The model's name at a server."""
    key_file: Annotated[str, base.place(opened=True)] = ""
    """A file that holds the server's key."""
    query_prefix: str = ""
    """Text before each question."""
    document_prefix: str = ""
    """Text before each note."""
