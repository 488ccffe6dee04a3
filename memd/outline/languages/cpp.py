"""C++."""

import re
from dataclasses import replace

from memd.outline.languages import c

GRAMMAR = ("tree_sitter_cpp", "language")
SUFFIXES = (".cpp", ".cc", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".ipp", ".inl", ".h")
METHODS = frozenset("""
append at back begin c_str clear count data emplace emplace_back empty end erase find first front get insert join
length lock pop_back push_back reserve reset resize second size str substr unlock
""".split())  # fmt: skip
BUILTINS = frozenset("""
static_cast dynamic_cast const_cast reinterpret_cast std string vector map unordered_map set unique_ptr shared_ptr
make_unique make_shared move forward pair tuple optional function cout cerr endl
""".split())  # fmt: skip

TABLE = replace(
    c.TABLE,
    name="cpp",
    aliases=("c++", "cxx", "cc"),
    family="c",
    queries=("c_family", "cpp"),
    grammars=dict.fromkeys(SUFFIXES, GRAMMAR),
    separator="::",
    self_words=frozenset({"this"}),
    builtins=c.BUILTINS | BUILTINS,
    methods=METHODS,
    is_native=lambda parts: c.is_native(parts) or parts[:1] == ("std",),
    bare_members=True,
    sniff=re.compile(rb"^\s*(?:class\s+\w+[^;()]*\{|namespace\b|template\s*<|public:|private:|using\s)", re.MULTILINE),
)
