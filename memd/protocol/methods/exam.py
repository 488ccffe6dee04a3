"""How well questions are answered: `eval`."""

from typing import Annotated, Any, NotRequired

from memd.errors import UsageError
from memd.protocol.methods.base import MAX_HITS, AcrossWorkspaces, Mode, Progressing, Scoped, doc, place


class EvalResult(AcrossWorkspaces):
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


class EvalRequest(
    Scoped, Progressing, method="eval", args="path", result=EvalResult, reads=True, slow=True, local=True
):
    """Scores questions whose answers are known, or probes made from the notes."""

    path: Annotated[str, place(opened=True)] = ""
    """A file of questions, absolute or with `~`: one JSON object a line."""
    questions: list[dict[str, Any]] | None = None
    """The questions themselves."""
    self_: bool = False
    """Ask probes made from the notes."""
    mode: Mode = "hybrid"
    """As in `query`."""
    limit: Annotated[int, doc(f"hits to ask for, at least 10; 0 means {MAX_HITS}", ge=0, le=MAX_HITS)] = 10

    def check(self) -> None:
        if (bool(self.path), self.questions is not None, self.self_).count(True) != 1:
            raise UsageError("`eval` needs one of `path`, `questions` and `self`", "for example: memd eval --self")
