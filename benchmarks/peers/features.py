"""Facts about programs that no run measures, where they are documented, and why memd is behind where it is."""

from __future__ import annotations

WHAT = (
    "where the text lives",
    "finds edits by itself",
    "words and meaning together",
    "the model of a fresh installation",
    "takes an OpenAI-compatible embedder",
    "hits name",
    "MCP server",
    "asked from the shell",
    "a page in the browser",
    "memories age",
    "reranking by a model",
)

FACTS: dict[str, tuple[str, ...]] = {
    "memd": (
        "your Markdown files", "yes, a daemon", "yes", "in the package", "yes", "file and lines", "yes", "yes", "yes",
        "yes", "no",
    ),
    "memtomem": (
        "your Markdown files", "while its MCP server or its page runs", "yes, once an embedder is set", "a download",
        "yes", "file and lines", "yes", "yes", "yes", "yes, off at first", "yes, a download",
    ),
    "MemPalace": (
        "a store of its own, filled from files", "no: `mine`", "yes", "a download", "yes", "file", "yes", "yes", "no",
        "no", "by an LLM, in its benchmarks",
    ),
    "memsearch": (
        "your Markdown files", "while `watch` runs", "yes", "a service, or a download", "yes", "file and lines",
        "no: plug-ins for agents", "yes", "no", "no", "yes, off at first",
    ),
    "memweave": (
        "your Markdown files", "while `start_watching()` runs", "yes", "a service", "yes, by LiteLLM",
        "file and lines", "no", "yes", "no", "yes, off at first", "no",
    ),
    "mcp-memory-service": (
        "a store of its own, filled from files", "no: `ingest-directory`", "meaning, or words", "a download", "yes",
        "text", "yes", "no: over HTTP", "yes", "yes, off at first", "yes, off at first",
    ),
    "basic-memory": (
        "your Markdown files; adds front matter", "while its MCP server runs", "yes", "a download", "yes", "file",
        "yes", "yes", "in its cloud", "no", "yes, off at first",
    ),
    "qmd": (
        "your Markdown files", "no: `update`, `embed`", "yes, with its models", "a download", "no", "file and lines",
        "yes", "yes", "no", "no", "yes, a download",
    ),
    "ripgrep": (
        "your files", "nothing is indexed", "words", "none", "no", "file and lines", "no", "yes", "no", "no", "no",
    ),
}  # fmt: skip
"""Program → a cell for each line of WHAT."""

SOURCES = (
    "memd's own pages, and the README, `--help` and configuration of memtomem 0.6.12, MemPalace 3.11.0, memsearch "
    "0.4.23, memweave 0.2.1, mcp-memory-service 12.4.0, basic-memory 0.24.1, qmd 2.8.3 and ripgrep 15"
)
"""Where these facts are documented."""

NO_INDEX = "ripgrep and BM25 embed nothing"
SMALLER = "rivals with longer chunks have fewer to embed"
LONGER = "longer hits cover more lines each"

CAUSES: dict[str, str] = {
    "scale/cold shell p50, ms": "ripgrep is a small native program; memd starts Python to ask its daemon",
    "scale/warm p50, ms": "memd's answer passes a daemon, a reader and an embedder, each a process; others one or two",
    "scale/memory while asked, MB": "memd keeps its models and stores loaded; the rivals' embedder is not counted",
    "scale/time, s": f"{NO_INDEX}; {SMALLER}",
    "scale/memory at its height, MB": "memd runs the model itself; the embedder that rivals call is not counted",
    "scale/disk, MB": "97 MB are the prepared models, 65 of them for other languages; then history, vectors, indexes",
    "scale/start to first answer, ms": "memd starts a daemon with its stores; others have less to start",
    "scale/saved, then found, ms": NO_INDEX,
    "needs/installed, MB": "two models and Chroma come with memd; the models of rivals are downloads, not counted here",
    "found/any@5": LONGER,
    "found/MRR": LONGER,
    "found/sessions any@5": LONGER,
    "found/sessions frac@5": LONGER,
}
"""Part and column → why somebody can be better than memd there."""
