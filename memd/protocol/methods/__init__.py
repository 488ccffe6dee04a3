"""Every method of the socket, declared once: name, sentence, parameters, result, and what kind of method it is.

Validation, the typed requests of the handlers, both clients, `hello`, the tables of docs/protocol.md, the options of
the command line, the flags of the fast path and the input schemas of MCP tools all follow from these declarations.
"""

import importlib

from memd.protocol.methods.base import METHODS, Method, Request

SUBJECTS = (
    "server search context overview exam transfer workspaces lifecycle events memories history notes edges outline"
    " proposals"
)
GROUPS = tuple(importlib.import_module(f"{__name__}.{subject}") for subject in SUBJECTS.split())
"""The subjects, a module each, in the order of the documentation; importing one declares its methods."""

__all__ = ["GROUPS", "METHODS", "Method", "Request"]
