"""The calls that a token allows: decided from the declarations, so that no method is listed here.

A method that is not bound to a workspace is refused, but for those that every bound connection may call; so are paths
of this machine, and whatever cannot be undone. What is left is called for the token's workspaces and in its name.
"""

import os
from dataclasses import dataclass
from typing import Any, Self

from memd.config.tokens import AccessToken
from memd.errors import Refused, UnknownMethod, UsageError
from memd.protocol.methods import METHODS, Method
from memd.protocol.methods.base import parameters_of

HERE = "cwd"
"""The caller's directory: on another machine it says nothing."""
OF_THIS_MACHINE = ("pid", "readers", "children", "log", "state_dir", "config", "socket", "unwatched")
"""Fields of answers that are about the machine."""


@dataclass(frozen=True, slots=True)
class Access:
    """A token, narrowed to what one request is about."""

    token: AccessToken
    ns: tuple[str, ...]

    @classmethod
    def of(cls, token: AccessToken, ns: str = "") -> Self:
        return cls(token, cls(token, token.ns).workspaces(ns or ()))

    def workspaces(self, named: Any) -> tuple[str, ...]:
        """The workspaces that a call is about: those that it names, or all of the token's."""
        wanted = (named,) if isinstance(named, str) else named
        if not isinstance(wanted, list | tuple) or not all(isinstance(one, str) for one in wanted):
            raise UsageError("`ns` must be the name of a workspace, or a list of names")
        for one in wanted:
            if one not in self.ns:
                # The same whether it exists or not.
                known = f"it is for: {', '.join(self.ns)}"
                raise Refused(f"the token `{self.token.name}` is not for a workspace `{one}`", known)
        return tuple(wanted) or self.ns

    def params(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        """The parameters with which the daemon is called; Refused where the token does not reach so far."""
        declared = METHODS.get(method)
        if declared is None:
            raise UnknownMethod(f"there is no method `{method}`", "see which there are: `capabilities` in `hello`")
        self._check(declared, given)
        params = {name: value for name, value in given.items() if name != HERE}
        if "ns" in declared.parameters:
            params["ns"] = list(self.workspaces(params.get("ns") or ()))
        if declared.signed:
            params["who"] = self.token.who
        if declared.writes:
            # Not another's number: the answer to a repeated write tells what was written.
            number = params.get("request_id") or os.urandom(8).hex()
            if not isinstance(number, str):
                raise UsageError("`request_id` must be a text")
            params["request_id"] = f"{self.token.who}:{number}"
        return params

    def _check(self, method: Method, given: dict[str, Any]) -> None:
        if not offered(method):
            raise Refused(f"`{method.name}` is about the hub's own machine, and not offered over the network", "")
        if not (method.reads or self.token.write):
            hint = "the owner makes another: memd token add --write"
            raise Refused(f"the token `{self.token.name}` may only read", hint)
        for name, parameter in parameters_of(method.name).items():
            if parameter.local and name != HERE and given.get(name):
                why = f"`{name}` of `{method.name}` is left to callers on the hub's own machine"
                raise Refused(why, "leave it out")

    def visible(self, method: str, result: dict[str, Any]) -> dict[str, Any]:
        """A result without the machine and without other workspaces."""
        if not METHODS[method].about_daemon:
            return result
        shown = {name: value for name, value in result.items() if name not in OF_THIS_MACHINE}
        if "workspaces" in shown:
            shown["workspaces"] = [one for one in shown["workspaces"] if one["ns"] in self.ns]
        if "capabilities" in shown:
            shown["capabilities"] = [name for name in shown["capabilities"] if self.may_use(name)]
        return shown

    def may_use(self, name: str) -> bool:
        method = METHODS.get(name)
        return method is not None and offered(method) and (method.reads or self.token.write)


def offered(method: Method) -> bool:
    """Whether the hub has a method: it can be kept to workspaces, or tells nothing that is not theirs."""
    if method.local or method.notifies:
        return False
    if method.about_daemon:
        return method.for_bound
    return not any(one.local and one.required for one in parameters_of(method.name).values())
