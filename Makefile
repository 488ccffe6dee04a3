# memd: two commands matter, `make demo` and `make test`. Both make their own environment in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# uv where it is there: it downloads side by side. Both show what they do.
UV     := $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install)

.PHONY: demo test lint types tests soak machines long-run bench bench-retrieval bench-queries bench-parts bench-embedding bench-stall bench-note \
	bench-context bench-words bench-likeness bench-lifecycle bench-reflect bench-peers bench-agents bench-workspaces bench-hooks bench-mcp bench-hub bench-outline \
	outline-agrees docs record axe screenshots lock locked check-lock sbom clean

demo: $(STAMP)            ## install memd, start it on a copy of the example notes, ask, edit, ask again
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

test: lint types tests    ## everything that must hold before a change lands

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

axe: $(STAMP)             ## fetch axe-core, with which the browser tests look for faults of accessibility; needs npm
	$(BIN)/python tests/fetch_axe.py

screenshots: $(STAMP)     ## the pictures of docs/web.md; needs chromium
	$(BIN)/python docs/screenshots.py

soak: $(STAMP)            ## the fault tests with large counts; takes long
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=7200 -rP tests/faults tests/test_service.py tests/test_written_model.py tests/test_fuzz.py tests/unit/test_safe_write.py tests/test_many_workspaces.py $(ARGS)

machines: $(STAMP)        ## three machines that edit the same notes for an hour each way, by git and by a synchroniser
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=9000 tests/test_several_machines.py $(ARGS)

long-run: $(STAMP)        ## edits and questions for an hour; draws memory and descriptors; ARGS="--minutes 5"
	$(BIN)/python benchmarks/long_run.py --picture docs/pictures/long-run.svg $(ARGS)

bench: $(STAMP)           ## the measurements behind the figures in docs/performance.md
	$(BIN)/python benchmarks/run.py $(ARGS)

bench-retrieval: $(STAMP) ## the tables of docs/retrieval.md; DATA=folder of a labelled collection
	$(BIN)/python benchmarks/retrieval.py $(DATA) $(ARGS)

bench-queries: $(STAMP)   ## how long new questions take; ARGS="--chunks 100000" for the large workspace
	$(BIN)/python benchmarks/queries.py $(ARGS)

bench-parts: $(STAMP)     ## what a hybrid question is made of
	$(BIN)/python benchmarks/parts.py $(ARGS)

bench-stall: $(STAMP)     ## what questions wait for while the daemon imports, fills, saves boilerplate, reflects
	$(BIN)/python benchmarks/stall.py $(ARGS)

bench-embedding: $(STAMP) ## how many chunks a second the daemon embeds, beside the bare model
	$(BIN)/python benchmarks/embedding.py $(ARGS)

.PHONY: bench-chroma-server
bench-chroma-server: $(STAMP) ## a Chroma server beside the embedded engine, and killed under load; ARGS="--chunks 100000" on a quiet machine
	$(BIN)/python benchmarks/chroma_server.py $(ARGS)

bench-note: $(STAMP)      ## how long a note takes, beside a bare write and fsync of the same bytes
	$(BIN)/python benchmarks/note.py $(ARGS)

bench-peers: $(STAMP)     ## memd beside its rivals: docs/comparison.md; PEERS=memd,ripgrep PARTS=found,scale; DATA=folder of collections
	PYTHONPATH="$(CURDIR)/benchmarks:$$PYTHONPATH" $(BIN)/python benchmarks/peers/compare.py \
		$(if $(PEERS),--peers $(PEERS)) $(if $(PARTS),--parts $(PARTS)) $(if $(DATA),--data $(DATA)) $(ARGS)

bench-agents: $(STAMP)    ## 50 agents that ask and write for a minute: errors, lost writes, how long calls took
	$(BIN)/python benchmarks/agents.py $(ARGS)

bench-hooks: $(STAMP)     ## how long an agent waits for the hook of a prompt, with 10,000 chunks
	$(BIN)/python benchmarks/hooks.py $(ARGS)

bench-mcp: $(STAMP)       ## how soon an agent's session answers, and what the pump takes
	$(BIN)/python benchmarks/sessions.py $(ARGS)

bench-hub: $(STAMP)       ## what a question takes over the hub, by /rpc and /mcp, beside the socket; 200 clients at once
	$(BIN)/python benchmarks/hub.py $(ARGS)

bench-workspaces: $(STAMP) ## threads, open files, memory, start and adding with many workspaces; ARGS="--workspaces 1000"
	$(BIN)/python benchmarks/workspaces.py $(ARGS)

bench-context: $(STAMP)   ## how long a context takes, beside a query
	$(BIN)/python benchmarks/context.py $(ARGS)

bench-likeness: $(STAMP)  ## how near alike and unlike memories are; DATA=folders of labelled collections
	$(BIN)/python benchmarks/likeness.py $(DATA) $(ARGS)

bench-words: $(STAMP)     ## asks for every word of the notes, alone and with its neighbour; DATA=folders of collections or workspaces
	$(BIN)/python benchmarks/words_found.py $(DATA) $(ARGS)

bench-lifecycle: $(STAMP) ## a year of notes and questions, with each rule on and off
	$(BIN)/python benchmarks/lifecycle.py $(ARGS)

bench-reflect: $(STAMP)   ## a reflection over 100,000 chunks, and what questions wait for it
	$(BIN)/python benchmarks/reflect.py $(ARGS)

bench-web: $(STAMP)       ## the page at 10,000 chunks: answers, drawing, typing, bytes, memory; needs chromium
	$(BIN)/python benchmarks/web.py $(ARGS)

bench-outline: $(STAMP)   ## how long outlines take: 1,000 files cold, one changed, a symbol asked over the socket
	$(BIN)/python benchmarks/outline.py $(ARGS)

outline-agrees: $(STAMP)  ## compares every file of the standard library and three packages with Python's own ast; minutes
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=3600 tests/test_outline_agrees.py $(ARGS)

docs: $(STAMP)            ## write what is generated: parts of docs/ and of memd/
	$(BIN)/python docs/generate.py

record: $(STAMP)          ## draw docs/pictures/quickstart.svg anew
	$(BIN)/python docs/record.py

lock:                     ## choose the versions of release/requirements.lock anew; needs uv
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes --upgrade \
		--no-annotate --no-emit-index-url --custom-compile-command "make lock" --quiet --output-file release/requirements.lock

locked:                   ## .venv with exactly what the lock has, each file checked by its hash; then as usual: make test
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r release/requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $(STAMP)

check-lock: $(STAMP)      ## what is installed beside the lock: versions, and files that were changed since; offline
	$(BIN)/python release/dependencies.py check

sbom: $(STAMP)            ## what memd stands on, as CycloneDX JSON
	@$(BIN)/python release/dependencies.py sbom

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .demo dist build

# The environment is made once and again when the dependencies change.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "memd needs Python 3.11 or newer"'
	@echo "installing memd and what it stands on into $(VENV): some 900 MB on the disk, 600 of them for memd itself; minutes the first time"
	test -x $(BIN)/python || $(or $(UV),$(PYTHON) -m) venv $(VENV)
	$(if $(UV),,$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1')
	$(INSTALL) --editable '.[all]' --group dev
	touch $(STAMP)
