"""Prints the code lines and files of memd/: no blank lines, comments or docstrings.

python release/count.py
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
"""The tokens that make no line a line of code."""


def code_lines(text: str) -> int:
    """How many lines of a file have code; a string that stands alone is a docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else []:
            if _is_docstring(one):
                lines -= set(range(one.lineno, one.end_lineno + 1))
    return len(lines)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def main() -> None:
    listed = subprocess.run(["git", "ls-files", "memd/*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for name in listed.stdout.splitlines() if (file := ROOT / name).is_file()]
    lines = sum(code_lines(file.read_text(encoding="utf-8")) for file in files)
    print(f"{lines:,} lines of code in {len(files)} files")


if __name__ == "__main__":
    main()
