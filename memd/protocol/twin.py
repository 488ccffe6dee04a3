"""One method, two clients: what is written down once answers at once in `Client` and is awaited in `AsyncClient`.

A method describes one call and returns what `self._ask` gives: in one client that is the answer, in the other
something to await. Light on purpose: `memd query` loads it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

    from memd.protocol.async_client import AsyncConversation
    from memd.protocol.conversation import Conversation
    from memd.protocol.results import Subscribed

    P = ParamSpec("P")
    R = TypeVar("R")
    Progress = Callable[[dict[str, Any]], None]

    class twin(Generic[P, R]):  # noqa: N801 (a decorator)
        """What a type checker makes of a method: its answer, or something to await, by whose method it is."""

        def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None: ...
        @overload
        def __get__(self, client: Conversation, owner: Any) -> Callable[P, R]: ...
        @overload
        def __get__(self, client: AsyncConversation, owner: Any) -> Callable[P, Awaitable[R]]: ...
        @overload
        def __get__(self, client: None, owner: Any) -> Callable[Concatenate[Any, P], R]: ...
        def __get__(self, client: Any, owner: Any) -> Any: ...

else:

    def twin(method):  # noqa: ANN001, ANN201
        """A method of both clients. The functions need nothing more at run time."""
        return method


def as_it_is(told: Any) -> Any:
    """The answer, whole."""
    return told


class Asking:
    """What the methods stand on: someone who can make a call."""

    if TYPE_CHECKING:

        def _ask(
            self,
            method: str,
            params: dict[str, Any] | None = None,
            take: Callable[[Any], R] = as_it_is,
            *,
            on_progress: Progress | None = None,
            timeout: float | None = None,
        ) -> R:
            """The answer to a call, as `take` makes it; in `AsyncClient` something to await."""

        def _greeting(self) -> dict[str, Any]: ...
        def _listening(self, told: Any) -> Subscribed: ...
