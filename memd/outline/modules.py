"""Finds the files of a module that an import names."""

from __future__ import annotations

from memd.outline.language import Language, Parts
from memd.outline.project import Project


def module_files(project: Project, language: Language, origin: str, name: Parts) -> list[str]:
    """The files of a module: of this very name, else beside the file that imports it, else the nearest that fits."""
    if not name:
        return []
    native = language.native(name)
    if native and not language.local_first:
        return []
    if name in project.modules:
        return project.modules[name]
    beside = (*project.parts[origin][:-1], *name)
    if beside in project.modules:
        return project.modules[beside]
    if native:
        return []
    fitting = [one for one in project.ending.get(name[-1], ()) if _fits(project, one, name)]
    if len(fitting) > 1:
        fitting = _nearest(project.parts[origin], fitting)
    return [file for one in fitting for file in project.modules[one]]


def _fits(project: Project, module: Parts, name: Parts) -> bool:
    """A module below a folder of sources has a longer path than its name; one that is named from outside a shorter."""
    if len(module) > len(name):
        root = module[: len(module) - len(name)]
        return module[-len(name) :] == name and root not in project.modules
    return len(module) < len(name) and name[-len(module) :] == module


def _nearest(origin: Parts, fitting: list[Parts]) -> list[Parts]:
    """Those that share the most folders with the file; all of them when that does not decide."""
    shared = {one: sum(1 for _ in _common(origin, one)) for one in fitting}
    most = max(shared.values())
    best = [one for one in fitting if shared[one] == most]
    longest = max(len(one) for one in best)
    return sorted(one for one in best if len(one) == longest)


def _common(one: Parts, other: Parts) -> list[str]:
    found = []
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        found.append(left)
    return found
