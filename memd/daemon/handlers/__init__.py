"""One handler a method: do it, answer. Importing this package registers them all."""

import importlib
import pkgutil

from memd.daemon.handlers.registry import HANDLERS, dispatch

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

__all__ = ["HANDLERS", "dispatch"]
