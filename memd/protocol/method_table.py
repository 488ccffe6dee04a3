"""The facts of each method that a call needs, without what declares them; method_table.json has them, which `make docs`
writes from memd/protocol/methods.

Light on purpose: `memd query` loads it.
"""

from memd.protocol.wire import read_beside

LONG_TIMEOUT = 900.0
"""Seconds of silence to bear in calls that read every file; the daemon reports progress long before that."""


class LightMethod:
    """One method of the socket, as a client sees it."""

    __slots__ = ("args", "notifies", "paths", "python_name", "reads", "signed", "slow", "writes")

    def __init__(self, python_name: str, args: str = "", paths: str = "", facts: str = "") -> None:
        self.python_name = python_name
        self.args = args.split()
        """The parameters that may be given by position."""
        self.paths = paths.split()
        """Parameters that are paths, relative to the caller's directory."""
        self.reads = "reads" in facts
        self.writes = "writes" in facts
        self.signed = "signed" in facts
        self.slow = "slow" in facts
        self.notifies = "notifies" in facts


METHODS = {name: LightMethod(**facts) for name, facts in read_beside(__file__, "method_table.json").items()}
