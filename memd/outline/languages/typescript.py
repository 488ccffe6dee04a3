"""TypeScript."""

from dataclasses import replace

from memd.outline.languages import javascript

PLAIN = ("tree_sitter_typescript", "language_typescript")

TABLE = replace(
    javascript.TABLE,
    name="typescript",
    family="javascript",
    queries=("ecmascript", "typescript"),
    aliases=("ts",),
    grammars={".ts": PLAIN, ".mts": PLAIN, ".cts": PLAIN, ".tsx": ("tree_sitter_typescript", "language_tsx")},
)
