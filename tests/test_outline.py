"""The outline of sources: what is defined in eight languages, how it relates, what is left out, how it stays fresh."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from memd.errors import NotFound, UsageError
from memd.outline import languages, queries, relations, sources
from memd.outline.languages import annotation_types
from memd.outline.outline import Outline
from memd.outline.relations import relations_of
from tests.conftest import ROOT
from tests.outline_samples import SAMPLES, Sample


def write(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return root


def outlined(root: Path, files: dict[str, str] | None = None, max_kb: int = 1_024) -> Outline:
    """The outline of a folder, read."""
    write(root, files or {})
    made = Outline(root, root.parent / "cache" / "1.db", max_kb * 1024)
    made.refresh()
    return made


def symbols(outline: Outline, language: str) -> dict[str, str]:
    project = outline.family(languages.named(language)).project
    return {project.qualified(one): project.symbol(one).kind for one in project.ids(project.files) if one.number}


def related(outline: Outline, language: str, name: str, relation: str) -> set[str]:
    """The whole names that a symbol is related to, each certain."""
    family = outline.family(languages.named(language))
    every = [one for one in family.project.ids(family.project.files) if family.project.qualified(one) == name]
    found = [relation_ for one in every for relation_ in relations_of(family, one, [relation])]
    return {family.project.qualified(one.targets[0]) for one in found if len(one.targets) == 1 and not one.unsure}


# --- languages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", SAMPLES)
def test_every_language_has_its_definitions_and_relations(language: str, tmp_path: Path) -> None:
    sample: Sample = SAMPLES[language]
    outline = outlined(tmp_path / "w", sample.files)
    assert symbols(outline, language) == sample.symbols
    assert not outline.problems
    for name, relation, target in sample.relations:
        assert target in related(outline, language, name, relation), (name, relation, target)


def test_the_samples_show_every_kind_and_every_relation() -> None:
    assert {kind for sample in SAMPLES.values() for kind in sample.symbols.values()} == {
        "module", "class", "interface", "function", "method", "constant", "type",
    }  # fmt: skip
    shown = {relation for sample in SAMPLES.values() for _, relation, _ in sample.relations}
    assert shown | {"mentioned_in"} == set(queries.KINDS)
    assert set(SAMPLES) == set(languages.known())


def test_a_type_alias_is_a_definition_with_parameters_or_without(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": "type Plain = int\ntype Pair[T: int, *Ts] = tuple[T, *Ts]\n"})
    assert symbols(outline, "python") == {"m.Plain": "type", "m.Pair": "type"}


def test_a_language_is_known_by_other_names_too() -> None:
    assert languages.named("golang").name == languages.named("Go").name == "go"
    assert languages.named("py").name == "python" and languages.named("C++").name == "cpp"
    with pytest.raises(UsageError, match="does not know the language 'phyton'") as caught:
        languages.named("phyton")
    assert "did you mean `python`?" in caught.value.message and "rust" in caught.value.hint


# --- what a name means ------------------------------------------------------------------------------------------


def test_a_name_means_what_the_scope_says_before_what_the_project_has(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {
        "a.py": "def run(): ...\ndef one(run): run()\ndef two():\n    def run(): ...\n    run()\ndef three(): run()\n",
        "b.py": "import a\nfrom a import run as go\ndef four(): go()\ndef five(): a.run()\n",
    })  # fmt: skip
    assert related(outline, "python", "a.one", "calls") == set(), "a parameter is not the function of its name"
    assert related(outline, "python", "a.two", "calls") == {"a.two.run"}
    assert related(outline, "python", "a.three", "calls") == {"a.run"}
    assert related(outline, "python", "a.run", "called_by") == {"a.three", "b.four", "b.five"}


def test_what_could_be_several_is_said_to_be(tmp_path: Path) -> None:
    files = {
        "a.py": "class A:\n    def fetch(self): ...\n",
        "b.py": "class B:\n    def fetch(self): ...\n    def store(self): ...\n",
        "c.py": "def use(thing):\n    thing.fetch()\n    thing.store()\n    thing.append(1)\n",
    }
    outline = outlined(tmp_path / "w", files)
    (entry,) = queries.trees(outline, "python", "use", relations=("calls",)).trees
    fetch, store, append = entry.node["relations"]
    assert fetch["ambiguous"] and [one["name"] for one in fetch["candidates"]] == ["a.A.fetch", "b.B.fetch"]
    assert "to" not in fetch
    assert store["to"]["name"] == "b.B.store" and store["how"] == "name"
    assert append["native"] and "to" not in append
    text = relations.render([entry.node])
    assert "calls fetch  c.py:2  ? ambiguous: a.A.fetch a.py:2, b.B.fetch b.py:2" in text
    assert "calls method b.B.store  b.py:3  ~ the only one of its name" in text
    (back,) = queries.trees(outline, "python", "A.fetch", relations=("called_by",)).trees
    assert back.node["relations"][0]["ambiguous"]


def test_what_is_not_there_is_told_by_where_it_comes_from(tmp_path: Path) -> None:
    body = ["os.getcwd()", "numpy.dot()", "x.nothing_known()", "near.gone()"]
    code = "import os, numpy\nfrom . import near\ndef f(x):\n" + "".join(f"    {line}\n" for line in body)
    outline = outlined(tmp_path / "w", {"pkg/m.py": code, "pkg/near.py": ""})
    (entry,) = queries.trees(outline, "python", "f", relations=("calls",)).trees
    told = {one["name"]: set(one) & {"native", "external", "unknown"} for one in entry.node["relations"]}
    assert told == {
        "os.getcwd": {"native"}, "numpy.dot": {"external"}, "nothing_known": {"unknown"}, "pkg.near.gone": {"unknown"},
    }  # fmt: skip


def test_types_that_are_told_decide(tmp_path: Path) -> None:
    code = """
class Store:
    def save(self): ...
class Other:
    def save(self): ...
class Desk:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.other = Other()
    def one(self): self.store.save()
    def two(self): self.other.save()
def three(store: Store): store.save()
def four():
    made = Other()
    made.save()
"""
    outline = outlined(tmp_path / "w", {"m.py": code})
    assert related(outline, "python", "m.Store.save", "called_by") == {"m.Desk.one", "m.three"}
    assert related(outline, "python", "m.Other.save", "called_by") == {"m.Desk.two", "m.four"}


ANNOTATED = """
class Save: ...
class Doc: ...
class Other: ...
def prose(a: Annotated[str, "Save the widget before you go"]) -> Annotated[int, Doc("Save it")]: ...
def word(a: t.Annotated[str, "Save"], b: Literal["Save"], c: t.Literal["Save"], d: Some(title="Save")): ...
def sentence(a: "Save, or not", b: "Save the widget", c: list["not Save"], d: "Save or Other", e: "Save\\d"): ...
def long(
    a: Annotated[
        Other,
        Doc(
            '''
            Save it. %s
            '''
        ),
    ],
): ...
def forward(a: "Save"): ...
def inner(a: list["Save"]): ...
def expression(a: "dict[str, list[Save]]"): ...
def union(a: "Save | None", b: int | "Other"): ...
def callable(a: Callable[["Save"], "Other"]): ...
def first(a: Annotated["Save", "Other"]): ...
def again(a: "Annotated[list['Save'], Doc('Other')]"): ...
def bound[T: Save](a: T, *rest: *tuple[Other]): ...
""" % ("and so on " * 50)


def test_a_string_in_an_annotation_is_a_type_only_where_it_refers_to_one(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": ANNOTATED})
    assert not outline.problems
    found = {
        name.removeprefix("m."): {one.removeprefix("m.") for one in related(outline, "python", name, "uses_type")}
        for name, kind in symbols(outline, "python").items()
        if kind == "function"
    }
    save, both = {"Save"}, {"Save", "Other"}
    assert found == {
        "prose": set(), "word": set(), "sentence": set(), "long": {"Other"}, "forward": save, "inner": save,
        "expression": save, "union": both, "callable": both, "first": save, "again": save, "bound": both,
    }  # fmt: skip
    (entry,) = queries.trees(outline, "python", "prose", relations=("uses_type",)).trees
    assert [one["name"] for one in entry.node["relations"]] == ["Annotated", "str", "int"]


def test_a_type_is_counted_once_for_each_annotation(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": "class A: ...\ndef f(a: dict[\n    str,\n    list[A],\n]): ...\n"})
    (entry,) = queries.trees(outline, "python", "f", relations=("uses_type",)).trees
    assert [(one["name"], one.get("times", 1)) for one in entry.node["relations"]] == [
        ("dict", 1), ("str", 1), ("list", 1), ("A", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["x y", "T: int", "'\\0'", "(" * 500 + "x" + ")" * 500, "-" * 50_000 + "x", "'\\ud800'", "", "9" * 9_999],
)
def test_annotations_that_make_no_sense_name_nothing(text: str) -> None:
    assert not annotation_types(text)


def test_source_folders_and_reexports_are_followed(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {
        "src/pkg/__init__.py": "from .deep import Thing as Shown\nfrom .star import *\n",
        "src/pkg/deep.py": "class Thing: ...\n",
        "src/pkg/star.py": "def shining(): ...\n",
        "tests/test_it.py": "from pkg import Shown, shining\nimport json\n"
        "def test():\n    Shown()\n    shining()\n    json.dumps(1)\n",
        "src/pkg/json.py": "def dumps(x): ...\n",
    })  # fmt: skip
    assert related(outline, "python", "tests.test_it.test", "calls") == {"src.pkg.deep.Thing", "src.pkg.star.shining"}
    assert related(outline, "python", "src.pkg.json.dumps", "called_by") == set(), "json is the standard library's"


# --- trees ------------------------------------------------------------------------------------------------------

CYCLE = {"m.py": "def a():\n    b()\n    len('x')\ndef b():\n    c()\ndef c():\n    a()\n    d()\ndef d(): ...\n"}


def test_a_tree_has_one_relation_a_line_and_cuts_cycles(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", CYCLE)
    found = queries.trees(outline, "python", "a", depth=4, relations=("calls",))
    assert found.text().splitlines() == [
        "function m.a  m.py:1",
        "  def a()",
        "  calls function m.b  m.py:4",
        "    calls function m.c  m.py:6",
        "      calls function m.a  m.py:1  ↻ a cycle",
        "      calls function m.d  m.py:9",
        "  calls len  m.py:3  (native)",
    ]
    short = queries.trees(outline, "python", "a", depth=1, relations=("calls",), omit_native=True)
    assert short.text().splitlines()[2:] == ["  calls function m.b  m.py:4"]


def test_what_lies_further_on_keeps_its_direction(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", CYCLE)
    text = queries.trees(outline, "python", "d", depth=2, relations=("calls", "called_by")).text()
    assert text.splitlines()[2:] == ["  called_by function m.c  m.py:6", "    called_by function m.b  m.py:4"]


def test_a_file_has_an_entry_for_every_symbol(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", CYCLE)
    found = queries.trees(outline, "python", file="m.py")
    assert [entry.node["name"] for entry in found.trees] == ["m", "m.a", "m.b", "m.c", "m.d"]
    (to_b, _, _) = found.trees[1].node["relations"]
    assert to_b["to"]["cut"] == "elsewhere"


def test_text_never_floods_and_values_are_whole(tmp_path: Path) -> None:
    many = "".join(f"def f{n}():\n    core()\n" for n in range(700))
    outline = outlined(tmp_path / "w", {"m.py": "def core(): ...\n" + many})
    found = queries.trees(outline, "python", "core", relations=("called_by",))
    assert len(found.trees[0].node["relations"]) == 700
    assert found.text().splitlines()[-1] == "  called_by … 675 more"
    whole = queries.trees(outline, "python")
    assert len(whole.trees) == 702
    lines = whole.text().splitlines()
    few = queries.trees(outline, "python", whole=False)
    assert len(few.trees) == relations.MAX_LINES and few.text().splitlines()[:-1] == lines[:-1]
    assert "and 302 more symbols" in few.text().splitlines()[-1]
    assert len(lines) == relations.MAX_LINES + 1 and lines[-1].startswith("… ") and "more lines" in lines[-1]


# --- finding a symbol ---------------------------------------------------------------------------------------------


def test_any_clear_end_of_a_name_will_do(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", SAMPLES["go"].files)
    whole = "outline.(*OutlineManager).RegisterExtractor"
    for name in (whole, "RegisterExtractor", "OutlineManager.RegisterExtractor", "(*OutlineManager).RegisterExtractor"):
        (entry,) = queries.trees(outline, "go", name).trees
        assert entry.node["name"] == whole
    assert queries.name_parts("a::b->c()") == ("a", "b", "c")


def test_unclear_and_unknown_names_are_explained(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {
        "a.py": "class A:\n    def save(self): ...\n",
        "b.py": "class B:\n    def save(self): ...\n",
    })  # fmt: skip
    with pytest.raises(UsageError, match="save could be 2 symbols") as unclear:
        queries.trees(outline, "python", "save")
    assert "a.A.save  a.py:2" in unclear.value.hint and "b.B.save  b.py:2" in unclear.value.hint
    assert queries.trees(outline, "python", "save", "b.py").trees[0].node["name"] == "b.B.save"
    with pytest.raises(NotFound, match="no symbol is called saev") as unknown:
        queries.trees(outline, "python", "saev")
    assert "did you mean save?" in unknown.value.hint
    with pytest.raises(UsageError, match="no relation 'call'") as relation:
        queries.trees(outline, "python", "A", relations=("call",))
    assert "did you mean `calls`?" in relation.value.message


def test_wrong_files_and_languages_are_explained(tmp_path: Path) -> None:
    root = write(tmp_path / "w", {"pkg/one.py": "x = 1\n", "notes.txt": "x", ".gitignore": "gone.py\n", "gone.py": ""})
    outline = outlined(root)
    for file, words in {
        "pkg/two.py": "there is no file",
        "notes.txt": "not in the outline",
        "gone.py": "not in the",
    }.items():
        with pytest.raises(NotFound, match=words) as caught:
            queries.trees(outline, "python", file=file)
        assert caught.value.hint
    with pytest.raises(UsageError, match=r"pkg/one\.py is python, not go"):
        queries.trees(outline, "go", file="pkg/one.py")
    with pytest.raises(NotFound, match="there are no go sources") as none:
        queries.trees(outline, "go")
    assert "python (1)" in none.value.hint
    assert queries.trees(outline, file="pkg/one.py").language == "python"
    write(root, {"a.go": "package a\n"})
    outline.refresh()
    with pytest.raises(UsageError, match="which language"):
        queries.trees(outline)


# --- what is left out -------------------------------------------------------------------------------------------


def test_what_git_ignores_and_builds_leave_is_left_out(tmp_path: Path) -> None:
    root = write(tmp_path / "w", {
        ".gitignore": "*.gen.py\n/made/\n!kept.gen.py\n", ".git/info/exclude": "mine.py\nkept.gen.py\n", "mine.py": "",
        "a.py": "", "b.gen.py": "", "kept.gen.py": "", "made/c.py": "", "pkg/made/d.py": "",
        "pkg/.gitignore": "local.py\n", "pkg/local.py": "", "local.py": "",
        "node_modules/x/e.js": "", "build/f.py": "", "target/g.rs": "", ".hidden/h.py": "", ".venv/i.py": "",
        "env2/pyvenv.cfg": "", "env2/j.py": "", "src/build/__init__.py": "", "src/build/k.py": "",
        "lib/l.min.js": "", "notes.md": "",
    })  # fmt: skip
    (root / "link.py").symlink_to(root / "a.py")
    found = sources.list_sources(root)
    assert sorted(found.files) == [
        "a.py", "kept.gen.py", "local.py", "pkg/made/d.py", "src/build/__init__.py", "src/build/k.py",
    ]  # fmt: skip
    assert found.skipped == {"lib/l.min.js": "it is a generated file"}


def test_the_same_is_left_out_as_git_itself_ignores(tmp_path: Path) -> None:
    rules = ["*.gen.py", "!keep.gen.py", "/top.py", "deep/**/x.py", "folder/", "a[0-9].py", "# no rule", "sp ace.py"]
    names = ["one.gen.py", "keep.gen.py", "top.py", "in/top.py", "deep/a/b/x.py", "deep/x.py", "folder/y.py",
             "in/folder/z.py", "a1.py", "ab.py", "sp ace.py", "plain.py"]  # fmt: skip
    root = write(tmp_path / "w", {".gitignore": "\n".join(rules), **dict.fromkeys(names, "")})
    subprocess.run(["git", "init", "-q", root], check=True)
    told = subprocess.run(
        ["git", "-C", root, "ls-files", "-o", "--exclude-standard", "*.py"], capture_output=True, text=True
    )
    assert sorted(sources.list_sources(root).files) == sorted(line.strip('"') for line in told.stdout.splitlines())


def test_sources_that_cannot_be_read_are_listed_and_stop_nothing(tmp_path: Path) -> None:
    root = write(
        tmp_path / "w",
        {"good.py": "def good(): ...\n", "broken.py": "def ok(): ...\nclass (:\n  def\n", "empty.py": ""},
    )
    (root / "binary.py").write_bytes(b"\x7fELF\0\0\0")
    (root / "latin.py").write_bytes("# -*- coding: latin-1 -*-\ndef café(): ...\n".encode("latin-1"))
    (root / "undeclared.py").write_bytes("def grün(): ...\n".encode("latin-1"))
    (root / "huge.py").write_text("x = 1\n" * 20_000)
    (root / "line.js").write_text("var x = '" + "y" * 30_000 + "'")
    (root / "secret.py").write_text("def secret(): ...\n")
    os.mkfifo(root / "pipe.py")
    (root / "loop.py").symlink_to("loop.py")
    outline = outlined(root, max_kb=64)
    assert symbols(outline, "python") == {
        "good.good": "function", "broken.ok": "function", "latin.café": "function", "undeclared.grün": "function",
        "secret.secret": "function",
    }  # fmt: skip
    assert outline.skipped == {
        "broken.py": "line 2 cannot be parsed",
        "binary.py": "it is binary",
        "latin.py": "it is not UTF-8, as it declares: iso-8859-1",
        "undeclared.py": "it is not UTF-8 and was read as Latin-1",
        "huge.py": "it is larger than outline.max_file_kb = 64",
        "line.js": "it has a line of more than 20,000 bytes",
    }


def test_whoever_asks_for_a_file_is_told_what_is_wrong_with_it(tmp_path: Path) -> None:
    root = write(tmp_path / "w", {"good.py": "", "zbroken.py": "def ok(): ...\nclass (:\n  def\n"})
    for nth in range(queries.MAX_SKIPPED + 5):
        (root / f"b{nth}.py").write_bytes(b"\0")
    outline = outlined(root)
    broken = queries.trees(outline, "python", file="zbroken.py")
    assert broken.text().startswith("module zbroken  zbroken.py:1\n  not wholly read: line 2 cannot be parsed\n")
    assert broken.skipped_files()[0] == {"path": "zbroken.py", "why": "line 2 cannot be parsed"}
    assert len(broken.skipped_files()) == queries.MAX_SKIPPED
    assert "not wholly" not in queries.trees(outline, "python", file="good.py").text()


def test_a_parser_that_dies_takes_one_file_along(tmp_path: Path) -> None:
    root = write(tmp_path / "w", {f"m{n}.py": f"def f{n}(): ...\n" * (n + 1) for n in range(20)})
    probe = (
        "import sys; from pathlib import Path; from memd.outline.outline import Outline\n"
        "o = Outline(Path(sys.argv[1]), Path(sys.argv[2]), 1 << 20); o.refresh()\n"
        "print(len(o.problems), len(o.families['python'].project.files), set(o.problems.values()))"
    )
    told = subprocess.run(
        [sys.executable, "-c", probe, root, tmp_path / "1.db"], capture_output=True, text=True, check=True,
        env={**os.environ, "MEMD_FAILPOINT": "outline-parse:4", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    # Each child dies at its fourth file: of ten files that is the fourth and the eighth.
    assert told.stdout.startswith("4 20 {'the parser crashed on it"), told.stdout + told.stderr


def test_sources_that_are_called_as_the_library_are_not_run(tmp_path: Path) -> None:
    names = ["json.py", "queue.py", "memd/__init__.py", *(f"m{n}.py" for n in range(20))]
    root = write(tmp_path / "w", dict.fromkeys(names, "raise SystemExit('run by mistake')\n"))
    before = Path.cwd()
    os.chdir(root)
    try:
        assert outlined(root).problems == {}
    finally:
        os.chdir(before)


# --- fresh ------------------------------------------------------------------------------------------------------


def test_only_what_changed_is_parsed_again(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {f"m{n}.py": f"def f{n}(): ...\n" for n in range(5)})
    settled(outline)
    assert outline.refresh().parsed == 0
    write(outline.root, {"m2.py": "def other(): f3()\n"})
    assert outline.refresh().parsed == 1
    assert related(outline, "python", "m3.f3", "called_by") == {"m2.other"}
    (outline.root / "m3.py").unlink()
    write(outline.root, {"sub/new.py": "def fresh(): ...\n"})
    report = outline.refresh()
    assert (report.parsed, report.removed) == (1, 1)
    assert related(outline, "python", "m2.other", "calls") == set()
    assert "sub.new.fresh" in symbols(outline, "python") and "m3.f3" not in symbols(outline, "python")
    write(outline.root, {".gitignore": "sub/\n"})
    assert outline.refresh().removed == 1


def settled(outline: Outline) -> None:
    """Date the files back, so that none counts as changed this very moment."""
    for path in (outline.root).rglob("*.py"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    outline.refresh()


def test_the_cache_is_by_content_and_survives_a_restart(tmp_path: Path) -> None:
    root = write(tmp_path / "w", {f"m{n}.py": f"def f{n}(): ...\n" for n in range(5)})
    first = outlined(root)
    settled(first)
    first.close()
    again = Outline(root, tmp_path / "cache" / "1.db", 1 << 20)
    assert again.refresh().parsed == 0
    assert symbols(again, "python") == {f"m{n}.f{n}": "function" for n in range(5)}
    again.close()
    (tmp_path / "cache" / "1.db").write_bytes(b"this is no database" * 100)
    third = Outline(root, tmp_path / "cache" / "1.db", 1 << 20)
    assert third.refresh().parsed == 5


def test_bytes_that_were_there_before_are_not_parsed_again(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": "def one(): ...\n"})
    write(outline.root, {"m.py": "def two(): ...\n", "same.py": "def one(): ...\n"})
    assert outline.refresh().parsed == 1, "as after a change of branches and back"
    write(outline.root, {"m.py": "def one(): ...\n"})
    assert outline.refresh().parsed == 0
    assert symbols(outline, "python") == {"m.one": "function", "same.one": "function"}


def test_facts_of_another_format_are_made_again(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": "def f(): ...\n"})
    settled(outline)
    outline.close()
    with sqlite3.connect(tmp_path / "cache" / "1.db") as link:
        link.execute("PRAGMA user_version = 99")
    assert Outline(tmp_path / "w", tmp_path / "cache" / "1.db", 1 << 20).refresh().parsed == 1


def test_a_second_change_within_the_same_moment_is_seen(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {"m.py": "def f(): ...\n"})
    file = outline.root / "m.py"
    before = file.stat()
    file.write_text("def g(): ...\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    outline.refresh()
    assert symbols(outline, "python") == {"m.g": "function"}


# --- the map ----------------------------------------------------------------------------------------------------


def test_the_map_has_what_most_refers_to_within_the_budget(tmp_path: Path) -> None:
    users = "".join(f"def user{n}():\n    core.central()\n" for n in range(9))
    outline = outlined(tmp_path / "w", {
        "core.py": "def central(): ...\ndef aside(): ...\n",
        "use.py": "import core\n" + users + "def last():\n    core.aside()\n",
        "web/app.js": "export function paint() {}\nfunction a() { paint(); }\n",
    })  # fmt: skip
    told = queries.project_map(outline, "", 1_000)
    assert [one["name"] for one in told["symbols"]] == ["core.central", "core.aside", "web.app.paint"]
    assert told["symbols"][0]["referrers"] == 9
    assert told["text"].splitlines()[:2] == ["core.py", "  1: def central()"]
    small = queries.project_map(outline, "python", 8)
    assert [one["name"] for one in small["symbols"]] == ["core.central"] and small["left_out"] == 1
    assert small["tokens"] <= 8 and queries.project_map(outline, "", 1)["text"] == ""


def test_the_map_has_every_language_of_a_family(tmp_path: Path) -> None:
    outline = outlined(tmp_path / "w", {
        "a.js": "export function paint() {}\nfunction a() { paint(); }\n",
        "b.ts": "export function draw(): void {}\nfunction b(): void { draw(); }\n",
    })  # fmt: skip
    assert [one["name"] for one in queries.project_map(outline, "", 1_000)["symbols"]] == ["a.paint", "b.draw"]
    for language, name in (("javascript", "a.paint"), ("typescript", "b.draw")):
        assert [one["name"] for one in queries.project_map(outline, language, 1_000)["symbols"]] == [name]
