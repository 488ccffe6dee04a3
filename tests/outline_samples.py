"""A small project in each language: what it defines, and what must be found of how its parts relate."""

from __future__ import annotations

from typing import NamedTuple


class Sample(NamedTuple):
    """Files, the kinds of the symbols in them by whole name, and relations as (from, relation, to)."""

    files: dict[str, str]
    symbols: dict[str, str]
    relations: list[tuple[str, str, str]]


GO = Sample(
    {
        "internal/outline/manager.go": """package outline

import (
	"fmt"
	ext "example.org/tool/internal/extract"
)

const MaxDepth = 9

type Extractor interface {
	Extract(path string) error
}

type base struct{}

func (b *base) touch() {}

type OutlineManager struct {
	base
	known map[string]Extractor
}

func NewManager() *OutlineManager {
	return &OutlineManager{known: make(map[string]Extractor)}
}

func (m *OutlineManager) RegisterExtractor(name string, e Extractor) {
	m.touch()
	m.known[name] = e
	fmt.Println(name)
	ext.Prepare(name)
	log(name)
}
""",
        "internal/outline/log.go": "package outline\n\nfunc log(text string) { println(text) }\n",
        "internal/extract/extract.go": "package extract\n\nfunc Prepare(name string) {}\n",
        "main.go": """package main

import "example.org/tool/internal/outline"

func main() {
	m := outline.NewManager()
	m.RegisterExtractor("go", nil)
}
""",
    },
    {
        "outline.MaxDepth": "constant",
        "outline.Extractor": "interface",
        "outline.Extractor.Extract": "method",
        "outline.base": "class",
        "outline.(*base).touch": "method",
        "outline.OutlineManager": "class",
        "outline.NewManager": "function",
        "outline.(*OutlineManager).RegisterExtractor": "method",
        "outline.log": "function",
        "extract.Prepare": "function",
        "main.main": "function",
    },
    [
        ("outline.OutlineManager", "inherits", "outline.base"),
        ("outline.OutlineManager", "contains", "outline.(*OutlineManager).RegisterExtractor"),
        ("outline.OutlineManager", "uses_type", "outline.Extractor"),
        ("outline.(*OutlineManager).RegisterExtractor", "calls", "outline.(*base).touch"),
        ("outline.(*OutlineManager).RegisterExtractor", "calls", "outline.log"),
        ("outline.(*OutlineManager).RegisterExtractor", "calls", "extract.Prepare"),
        ("outline.(*OutlineManager).RegisterExtractor", "called_by", "main.main"),
        ("outline.NewManager", "called_by", "main.main"),
    ],
)

JAVASCRIPT = Sample(
    {
        "src/store.js": """import fs from 'node:fs';
import { join as glue } from './util.js';

export const LIMIT = 3;

export class Base {
  close() {}
}

export class Store extends Base {
  constructor() { super(); this.log = new Log(); }
  save(name) {
    this.close();
    this.check(name);
    return glue(name, LIMIT);
  }
  check(name) { fs.existsSync(name); }
}

class Log {}

export const open = () => new Store();
""",
        "src/util.js": "export function join(a, b) { return parts(a).concat(b); }\nfunction parts(a) { return [a]; }\n",
        "src/index.js": "export { Store as Shelf } from './store.js';\n",
        "src/paint.js": "export default class Brush { dip() {} }\n",
        "src/draw.js": "import Brush from './paint';\nexport function draw() { const b = new Brush(); b.dip(); }\n",
        "main.js": """const { Shelf } = require('./src');

function main() {
  const shelf = new Shelf();
  shelf.save('x');
}
""",
    },
    {
        "src.store.LIMIT": "constant",
        "src.store.Base": "class",
        "src.store.Base.close": "method",
        "src.store.Store": "class",
        "src.store.Store.constructor": "method",
        "src.store.Store.save": "method",
        "src.store.Store.check": "method",
        "src.store.Log": "class",
        "src.store.open": "function",
        "src.paint.Brush": "class",
        "src.paint.Brush.dip": "method",
        "src.draw.draw": "function",
        "src.util.join": "function",
        "src.util.parts": "function",
        "main.main": "function",
    },
    [
        ("src.store.Store", "inherits", "src.store.Base"),
        ("src.store.Base", "inherited_by", "src.store.Store"),
        ("src.store.Store.save", "calls", "src.store.Base.close"),
        ("src.store.Store.save", "calls", "src.store.Store.check"),
        ("src.store.Store.save", "calls", "src.util.join"),
        ("src.util.join", "calls", "src.util.parts"),
        ("src.store.open", "calls", "src.store.Store"),
        ("main.main", "calls", "src.store.Store"),
        ("src.store.Store.save", "called_by", "main.main"),
        ("src.store", "imports", "src.util.join"),
        ("src.paint.Brush", "called_by", "src.draw.draw"),
        ("src.paint.Brush.dip", "called_by", "src.draw.draw"),
        ("src.paint.Brush", "imported_by", "src.draw"),
    ],
)

TYPESCRIPT = Sample(
    {
        "src/types.ts": """export interface Keeper { keep(text: string): void; }
export type Text = string | number;
export enum Mode { Fast, Slow }
""",
        "src/shelf.ts": """import type { Text } from './types';
import { Keeper, Mode } from './types';
import * as out from './out';

export abstract class Shelf implements Keeper {
  private writer: out.Writer;
  constructor(private inner: Keeper) {}
  keep(text: Text): void {
    this.inner.keep(text);
    out.tell(text);
  }
}

export function logged(target: unknown) { return target; }

@logged
export class Open extends Shelf {
  mode: Mode = Mode.Fast;
}
""",
        "src/out.ts": "export class Writer {}\nexport const tell = (text: unknown) => { console.log(text); };\n",
    },
    {
        "src.types.Keeper": "interface",
        "src.types.Keeper.keep": "method",
        "src.types.Text": "type",
        "src.types.Mode": "class",
        "src.shelf.Shelf": "class",
        "src.shelf.Shelf.constructor": "method",
        "src.shelf.Shelf.keep": "method",
        "src.shelf.logged": "function",
        "src.shelf.Open": "class",
        "src.out.Writer": "class",
        "src.out.tell": "function",
    },
    [
        ("src.shelf.Shelf", "implements", "src.types.Keeper"),
        ("src.types.Keeper", "inherited_by", "src.shelf.Shelf"),
        ("src.shelf.Open", "inherits", "src.shelf.Shelf"),
        ("src.shelf.Shelf.keep", "calls", "src.types.Keeper.keep"),
        ("src.shelf.Shelf.keep", "calls", "src.out.tell"),
        ("src.shelf.Shelf.keep", "uses_type", "src.types.Text"),
        ("src.shelf.logged", "decorates", "src.shelf.Open"),
        ("src.types.Mode", "imported_by", "src.shelf"),
    ],
)

RUST = Sample(
    {
        "src/main.rs": """mod net;
use crate::net::server::{Server, Limit as Most};

fn main() {
    let server = Server::new();
    server.run();
    let most: Most = 3;
    println!("{}", most);
}
""",
        "src/net/mod.rs": "pub mod server;\n\npub trait Listens { fn listen(&self); }\n\npub fn ready() {}\n",
        "src/net/server.rs": """use super::{ready, Listens};

pub const PORT: u16 = 8080;
pub type Limit = u32;

pub struct Server { limit: Limit }

impl Server {
    pub fn new() -> Self { Server { limit: 3 } }
    pub fn run(&self) { self.check(); ready(); helper(self.limit); }
    fn check(&self) {}
}

impl Listens for Server {
    fn listen(&self) { self.run() }
}

fn helper(limit: Limit) { let _ = limit; }

fn again() { self::helper(3); super::ready(); crate::net::client::helper(); }

mod tests {
    #[test]
    fn helps() { super::again(); }
}
""",
        "crates/app/src/main.rs": "mod setup;\nuse setup::Setup;\n\nfn start() { Setup::load(); }\n",
        "crates/app/src/setup.rs": "pub struct Setup;\nimpl Setup { pub fn load() {} }\n",
        "src/net/client.rs": """pub struct Limit {}

pub fn helper() -> crate::net::server::Limit { crate::net::server::PORT; super::server::Server::new(); 3 }
""",
    },
    {
        "main::main": "function",
        "app::start": "function",
        "app::setup::Setup": "class",
        "app::setup::Setup::load": "method",
        "net::client::Limit": "class",
        "net::client::helper": "function",
        "net::server::again": "function",
        "net::server::tests": "module",
        "net::server::tests::helps": "function",
        "net::Listens": "interface",
        "net::Listens::listen": "method",
        "net::ready": "function",
        "net::server::PORT": "constant",
        "net::server::Limit": "type",
        "net::server::Server": "class",
        "net::server::Server::new": "method",
        "net::server::Server::run": "method",
        "net::server::Server::check": "method",
        "net::server::Server::listen": "method",
        "net::server::helper": "function",
    },
    [
        ("net::server::Server", "contains", "net::server::Server::run"),
        ("net::server::Server", "implements", "net::Listens"),
        ("net::server::Server::run", "calls", "net::server::Server::check"),
        ("net::server::Server::run", "calls", "net::ready"),
        ("net::server::Server::run", "calls", "net::server::helper"),
        ("net::server::Server::run", "called_by", "main::main"),
        ("net::server::Server::run", "called_by", "net::server::Server::listen"),
        ("net::server::Server::new", "called_by", "main::main"),
        ("net::server::helper", "uses_type", "net::server::Limit"),
        ("app::setup::Setup::load", "called_by", "app::start"),
        ("net::server::again", "calls", "net::server::helper"),
        ("net::server::again", "calls", "net::client::helper"),
        ("net::server::again", "calls", "net::ready"),
        ("net::server::again", "called_by", "net::server::tests::helps"),
        ("net::client::helper", "calls", "net::server::Server::new"),
        ("net::client::helper", "uses_type", "net::server::Limit"),
    ],
)

JAVA = Sample(
    {
        "src/main/java/org/acme/Shelf.java": """package org.acme;

import java.util.List;
import org.acme.io.Writer;

public class Shelf extends Base implements Keeper {
    public static final int LIMIT = 3;
    private Writer writer;

    public Shelf() { super(); }

    @Override
    public void keep(String text) {
        check(text);
        touch();
        writer.write(text);
        List.of(text);
    }

    private void check(String text) { Shelf other = new Shelf(); other.keep(text); }
}
""",
        "src/main/java/org/acme/Base.java": "package org.acme;\n\nclass Base {\n    void touch() {}\n}\n",
        "src/main/java/org/acme/Keeper.java": "package org.acme;\n\ninterface Keeper {\n    void keep(String t);\n}\n",
        "src/main/java/org/acme/io/Writer.java": """package org.acme.io;

public class Writer {
    public void write(String text) { System.out.println(text); }
}
""",
    },
    {
        "org.acme.Shelf": "class",
        "org.acme.Shelf.LIMIT": "constant",
        "org.acme.Shelf.Shelf": "method",
        "org.acme.Shelf.keep": "method",
        "org.acme.Shelf.check": "method",
        "org.acme.Base": "class",
        "org.acme.Base.touch": "method",
        "org.acme.Keeper": "interface",
        "org.acme.Keeper.keep": "method",
        "org.acme.io.Writer": "class",
        "org.acme.io.Writer.write": "method",
    },
    [
        ("org.acme.Shelf", "inherits", "org.acme.Base"),
        ("org.acme.Shelf", "implements", "org.acme.Keeper"),
        ("org.acme.Shelf.keep", "calls", "org.acme.Shelf.check"),
        ("org.acme.Shelf.keep", "calls", "org.acme.Base.touch"),
        ("org.acme.Shelf.keep", "called_by", "org.acme.Shelf.check"),
        ("org.acme.Shelf", "uses_type", "org.acme.io.Writer"),
        ("org.acme.Shelf.keep", "calls", "org.acme.io.Writer.write"),
        ("org.acme.io.Writer", "imported_by", "org.acme"),
    ],
)

C = Sample(
    {
        "shelf.h": """#ifndef SHELF_H
#define SHELF_H
#define LIMIT 3
typedef struct shelf { int count; } shelf_t;
enum mode { FAST, SLOW };
void shelf_keep(shelf_t *shelf, const char *text);
#endif
""",
        "shelf.c": """#include <stdio.h>
#include "shelf.h"

static int check(const char *text) { return text != NULL; }

void shelf_keep(shelf_t *shelf, const char *text) {
    if (check(text)) { shelf->count++; printf("%s", text); }
}

char *shelf_name(void) { return "x"; }
""",
        "main.c": '#include "shelf.h"\n\nint main(void) { shelf_t s; shelf_keep(&s, "a"); return 0; }\n',
    },
    {
        "shelf.h.LIMIT": "constant",
        "shelf.h.shelf": "class",
        "shelf.h.shelf_t": "type",
        "shelf.h.mode": "type",
        "shelf.h.FAST": "constant",
        "shelf.h.SLOW": "constant",
        "shelf.c.check": "function",
        "shelf.c.shelf_keep": "function",
        "shelf.c.shelf_name": "function",
        "main.c.main": "function",
    },
    [
        ("shelf.c.shelf_keep", "calls", "shelf.c.check"),
        ("shelf.c.shelf_keep", "called_by", "main.c.main"),
        ("shelf.c.shelf_keep", "uses_type", "shelf.h.shelf_t"),
        ("shelf.c", "imports", "shelf.h"),
        ("shelf.h", "imported_by", "main.c"),
    ],
)

CPP = Sample(
    {
        "shelf.h": """#pragma once
#include <string>
namespace acme {
class Base {
public:
  virtual void touch() {}
};
class Shelf : public Base {
public:
  void keep(const std::string &text);
  int count() const { return count_; }
private:
  int count_ = 0;
};
}
""",
        "shelf.cpp": """#include "shelf.h"
namespace acme {
static void check(const std::string &text) {}
void Shelf::keep(const std::string &text) {
  check(text);
  touch();
  this->count();
}
}
""",
        "main.cpp": """#include "shelf.h"
int main() {
  acme::Shelf shelf;
  shelf.keep("a");
  return 0;
}
""",
        "rack.h": """namespace acme {
class Rack {
public:
  Rack(int size);
  void fill() const;
};
class Bin : public Rack {
public:
  void fill() const;
};
}
""",
        "rack.cpp": """#include "rack.h"
static int helper() { return 1; }
acme::Rack::Rack(int size) { helper(); }
void acme::Rack::fill() const { helper(); }
namespace acme { void Bin::fill() const {} }
int acme::weigh(int size) { return size; }
int use() {
  acme::Rack rack(1);
  rack.fill();
  return acme::weigh(2);
}
""",
    },
    {
        "shelf.h::acme": "module",
        "shelf.h::acme::Base": "class",
        "shelf.h::acme::Base::touch": "method",
        "shelf.h::acme::Shelf": "class",
        "shelf.h::acme::Shelf::count": "method",
        "shelf.cpp::acme": "module",
        "shelf.cpp::acme::check": "function",
        "shelf.cpp::acme::Shelf::keep": "method",
        "main.cpp::main": "function",
        "rack.h::acme": "module",
        "rack.h::acme::Rack": "class",
        "rack.h::acme::Bin": "class",
        "rack.cpp::helper": "function",
        "rack.cpp::Rack::Rack": "method",
        "rack.cpp::Rack::fill": "method",
        "rack.cpp::acme": "module",
        "rack.cpp::acme::Bin::fill": "method",
        "rack.cpp::acme::weigh": "method",
        "rack.cpp::use": "function",
    },
    [
        ("rack.cpp::Rack::fill", "called_by", "rack.cpp::use"),
        ("rack.cpp::acme::weigh", "called_by", "rack.cpp::use"),
        ("rack.cpp::helper", "called_by", "rack.cpp::Rack::Rack"),
        ("rack.cpp::helper", "called_by", "rack.cpp::Rack::fill"),
        ("shelf.h::acme::Shelf", "inherits", "shelf.h::acme::Base"),
        ("shelf.h::acme::Shelf", "contains", "shelf.cpp::acme::Shelf::keep"),
        ("shelf.cpp::acme::Shelf::keep", "calls", "shelf.cpp::acme::check"),
        ("shelf.cpp::acme::Shelf::keep", "calls", "shelf.h::acme::Base::touch"),
        ("shelf.cpp::acme::Shelf::keep", "calls", "shelf.h::acme::Shelf::count"),
        ("shelf.cpp::acme::Shelf::keep", "called_by", "main.cpp::main"),
        ("shelf.h", "imported_by", "shelf.cpp"),
    ],
)

PYTHON = Sample(
    {
        "pkg/__init__.py": "from .store import Store as Shelf\n",
        "pkg/store.py": '''"""A store."""
import functools
from pkg import tools
from pkg.tools import *

LIMIT = 3


class Base:
    def close(self): ...


class Store(Base):
    def __init__(self, log: "Log") -> None:
        self.log = log

    @tools.traced
    def save(self, name: str) -> "Store":
        self.close()
        self.log.write(name)
        tools.check(name)
        free(name)
        return self


class Log:
    def write(self, text): print(text)
''',
        "pkg/tools.py": "def traced(f): return f\ndef check(name): return free(name)\ndef free(name): ...\n",
        "app.py": "from pkg import Shelf\n\ndef main():\n    shelf = Shelf(None)\n    shelf.save('x')\n",
    },
    {
        "pkg.store.LIMIT": "constant",
        "pkg.store.Base": "class",
        "pkg.store.Base.close": "method",
        "pkg.store.Store": "class",
        "pkg.store.Store.__init__": "method",
        "pkg.store.Store.save": "method",
        "pkg.store.Log": "class",
        "pkg.store.Log.write": "method",
        "pkg.tools.traced": "function",
        "pkg.tools.check": "function",
        "pkg.tools.free": "function",
        "app.main": "function",
    },
    [
        ("pkg.store.Store", "inherits", "pkg.store.Base"),
        ("pkg.store.Store.save", "calls", "pkg.store.Base.close"),
        ("pkg.store.Store.save", "calls", "pkg.store.Log.write"),
        ("pkg.store.Store.save", "calls", "pkg.tools.check"),
        ("pkg.store.Store.save", "calls", "pkg.tools.free"),
        ("pkg.store.Store.save", "uses_type", "pkg.store.Store"),
        ("pkg.store.Store.save", "called_by", "app.main"),
        ("pkg.store.Store", "called_by", "app.main"),
        ("pkg.tools.traced", "decorates", "pkg.store.Store.save"),
        ("pkg.tools", "imported_by", "pkg.store"),
        ("pkg.store.Store", "imported_by", "pkg"),
        ("pkg.store.Store", "imported_by", "app"),
    ],
)

SAMPLES = {
    "python": PYTHON, "go": GO, "javascript": JAVASCRIPT, "typescript": TYPESCRIPT, "rust": RUST, "java": JAVA, "c": C,
    "cpp": CPP,
}  # fmt: skip
