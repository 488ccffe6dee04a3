"""What Python's own `ast` says of a module: its definitions, its imports, and the calls that stay within it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CONSTANT = re.compile(r"_*[A-Z][A-Z0-9_]*")
Definition = tuple[str, str, int]
Imported = tuple[str, str, str, int]
Call = tuple[str, str, int]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Space:
    """A namespace of the module; `definitions` are what is defined in it, `bound` all names."""

    kind: str
    name: str
    parent: Space | None
    node: ast.AST
    definitions: dict[str, str] = field(default_factory=dict)
    bound: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)
    bases: list[ast.expr] = field(default_factory=list)

    @property
    def caller(self) -> Space:
        """The definition that calls made here belong to."""
        return self.parent.caller if self.kind in ("lambda", "comprehension") and self.parent else self

    def qualified(self, name: str) -> str:
        here = self.caller.name
        return f"{here}.{name}" if here else name


class Module(ast.NodeVisitor):
    """Goes through a module twice: first what is bound where, then what is called."""

    def __init__(self, tree: ast.Module) -> None:
        self.definitions: set[Definition] = set()
        self.imports: list[Imported] = []
        self.spaces: dict[ast.AST, Space] = {}
        self.classes: dict[str, Space] = {}
        self.pending: list[tuple[Space, ast.Call]] = []
        self.here = Space("module", "", None, tree)
        for node in tree.body:
            self.visit(node)
        self.calls = {call for space, node in self.pending for call in self._called(space, node)}

    # --- binding ------------------------------------------------------------------------------------------

    def _within(self, space: Space, *nodes: ast.AST | list[ast.stmt]) -> None:
        before, self.here = self.here, space
        for node in nodes:
            for one in node if isinstance(node, list) else [node]:
                self.visit(one)
        self.here = before

    def _bind(self, name: str) -> None:
        self.here.bound.add(name)

    def _define(self, kind: str, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Space:
        name = self.here.qualified(node.name)
        self.definitions.add((kind, name, node.lineno))
        self.here.definitions[node.name] = name
        self._bind(node.name)
        for one in node.decorator_list:
            self.visit(one)
        return Space("class" if kind == "class" else "function", name, self.here, node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        space = self._define("method" if self.here.kind == "class" else "function", node)
        for one in (*node.args.defaults, *(one for one in node.args.kw_defaults if one)):
            self.visit(one)
        space.bound |= parameters(node.args)
        self._within(space, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        space = self._define("class", node)
        space.bases = node.bases
        self.classes[space.name] = space
        for one in (*node.bases, *(keyword.value for keyword in node.keywords)):
            self.visit(one)
        self._within(space, node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        space = Space("lambda", "", self.here, node, bound=parameters(node.args))
        for one in (*node.args.defaults, *(one for one in node.args.kw_defaults if one)):
            self.visit(one)
        self._within(space, node.body)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, COMPREHENSIONS):
            space = Space("comprehension", "", self.here, node)
            before, self.here = self.here, space
            super().generic_visit(node)
            self.here = before
        else:
            super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        around = self.here
        while around.kind == "comprehension" and around.parent:
            around = around.parent
        around.bound.add(node.target.id)
        self.visit(node.value)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.here.elsewhere.update(node.names)

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self._bind(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._constants(target, node.lineno)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._constants(node.target, node.lineno)
        self.visit(node.target)
        if node.value:
            self.visit(node.value)

    def _constants(self, target: ast.expr, line: int) -> None:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name in names:
            if isinstance(name, ast.Name) and CONSTANT.fullmatch(name.id) and self.here.kind in ("module", "class"):
                self.definitions.add(("constant", self.here.qualified(name.id), line))
                self.here.definitions[name.id] = self.here.qualified(name.id)

    def visit_TypeAlias(self, node: Any) -> None:
        """`type X = …`, which `ast` has since Python 3.12."""
        name = self.here.qualified(node.name.id)
        self.definitions.add(("type", name, node.lineno))
        self.here.definitions[node.name.id] = name
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            self.imports.append((one.name, "", one.asname or "", node.lineno))
            self._bind(one.asname or one.name.partition(".")[0])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for one in node.names:
            self.imports.append(("." * node.level + (node.module or ""), one.name, one.asname or "", node.lineno))
            self._bind(one.asname or one.name)

    def visit_Call(self, node: ast.Call) -> None:
        self.pending.append((self.here, node))
        self.generic_visit(node)

    # --- calls --------------------------------------------------------------------------------------------

    def _called(self, space: Space, node: ast.Call) -> Iterator[Call]:
        target = self._target(space, node.func)
        if target:
            yield space.caller.name, target, node.func.lineno

    def _target(self, space: Space, func: ast.expr) -> str:
        if isinstance(func, ast.Name):
            return self._meant(space, func.id)
        if not isinstance(func, ast.Attribute):
            return ""
        holder, value = "", func.value
        if isinstance(value, ast.Name):
            holder = self._itself(space, value.id) or self._meant(space, value.id)
        elif isinstance(value, ast.Attribute):
            holder = self._target(space, value)
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super":
            around = self._class_around(space)
            return next(filter(None, (self._inherited(around, func.attr) if around else "",)), "")
        return self._member(holder, func.attr) if holder in self.classes else ""

    def _meant(self, space: Space, name: str) -> str:
        """The definition that a name stands for where it is used, or nothing."""
        at: Space | None = space
        while at is not None:
            if (at is space or at.kind != "class") and name in at.bound and name not in at.elsewhere:
                return at.definitions.get(name, "")
            at = at.parent
        return ""

    def _class_around(self, space: Space) -> Space | None:
        at: Space | None = space
        while at is not None and at.kind != "class":
            at = at.parent
        return at

    def _itself(self, space: Space, name: str) -> str:
        """The class, where the name is the first parameter of one of its methods."""
        at: Space | None = space
        while at is not None:
            node = at.node
            if isinstance(node, FUNCTIONS) and at.parent and at.parent.kind == "class":
                first = [one.arg for one in (*node.args.posonlyargs, *node.args.args)][:1]
                return at.parent.name if name in ("self", "cls") and name in first else ""
            at = at.parent
        return ""

    def _member(self, name: str, attribute: str, seen: frozenset[str] = frozenset()) -> str:
        space = self.classes.get(name)
        if space is None or name in seen:
            return ""
        return space.definitions.get(attribute) or self._inherited(space, attribute, seen | {name})

    def _inherited(self, space: Space, attribute: str, seen: frozenset[str] = frozenset()) -> str:
        for base in space.bases:
            found = self._target(space.parent or space, base)
            if found and (member := self._member(found, attribute, seen | {space.name})):
                return member
        return ""


def parameters(given: ast.arguments) -> set[str]:
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {one.arg for one in every if one}
