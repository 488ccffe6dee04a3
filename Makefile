# memd: two commands matter, `make demo` and `make test`. Both make their own environment in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# uv where it is there: it downloads side by side. Both show what they do.
UV     := $(shell command -v uv)
INSTALL = $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip install)

# Many containers set it. Every process of the tests would compile all of memd again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint types tests elsewhere soak long-run machines bench fit count outline-agrees docs surface record axe screenshots lock locked check-lock sbom dist release image release-tools sizes clean

demo: $(STAMP)            ## install memd, start it on a copy of the example notes, ask, edit, ask again
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/demo.sh

test: lint types tests    ## everything that must hold before a change lands

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)           ## also for macOS: what of the standard library only Linux has is an error there
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin

tests: $(STAMP)
	$(BIN)/python -m pytest -n 4 --dist worksteal $(ARGS)

elsewhere: $(STAMP)       ## the tests again where all is hidden that only Linux has: as near to macOS as it gets without one
	PYTHONPATH=$(CURDIR)/tests/elsewhere $(BIN)/python -m pytest -n 4 --dist worksteal -m "not linux" $(ARGS)

axe: $(STAMP)             ## fetch axe-core, with which the browser tests look for faults of accessibility; needs npm
	$(BIN)/python tests/fetch_axe.py

screenshots: $(STAMP)     ## the pictures of docs/web.md; needs chromium
	$(BIN)/python docs/screenshots.py

soak: $(STAMP)            ## the fault tests with large counts; takes long
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=7200 -rP tests/faults tests/test_service.py tests/test_written_model.py tests/test_fuzz.py tests/unit/test_safe_write.py tests/test_many_workspaces.py $(ARGS)

long-run: $(STAMP)        ## a day of ten agents in two hours: memory, descriptors, threads and disk in a picture; ARGS="--minutes 20"
	$(BIN)/python benchmarks/long_run.py $(ARGS)

machines: $(STAMP)        ## three machines that edit the same notes for an hour each way, by git and by a synchroniser
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=9000 tests/test_several_machines.py $(ARGS)

bench: $(STAMP)           ## the figures of docs/performance.md; PARTS="queries hub" measures others, ARGS=--list names them; DATA=folders
	$(BIN)/python benchmarks/run.py $(PARTS) $(if $(DATA),--data $(DATA)) $(ARGS)

fit: $(STAMP)             ## fits the verdict's margin on half of the questions in other words, judges it on the other; DATA=folders of strangers
	$(BIN)/python benchmarks/run.py fit $(if $(DATA),--data $(DATA)) $(ARGS)

count:                    ## the code lines and files of memd/, without blanks, comments and docstrings
	@$(PYTHON) release/count.py

outline-agrees: $(STAMP)  ## compares every file of the standard library and three packages with Python's own ast; minutes
	MEMD_SOAK=1 $(BIN)/python -m pytest -n 2 --timeout=3600 tests/test_outline_agrees.py $(ARGS)

docs: $(STAMP)            ## write what is generated: parts of docs/ and of memd/
	$(BIN)/python docs/generate.py

surface: $(STAMP)         ## add what is new to release/surface.txt, the list of what stays through 1.x
	$(BIN)/python release/surface.py

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

dist: $(STAMP)            ## sdist and wheel of the last commit, built twice, SBOM, checksums; DEB="3.11 3.13" also packages; SIGN=key
	$(BIN)/python release/build.py $(addprefix --deb ,$(DEB)) $(if $(SIGN),--sign $(SIGN))

release: $(STAMP)         ## all that is given away, each tried in an empty Debian 12 and 13; needs root, dpkg-deb and debootstrap
	$(BIN)/python release/surface.py --check
	$(MAKE) dist DEB="3.11 3.13"
	release/try.sh 12 dist/pypi/* dist/*deb12*.deb
	release/try.sh 13 dist/pypi/* dist/*deb13*.deb

image: $(STAMP)           ## the image of deploy/, built without a registry and tried; needs root, debootstrap, buildah, podman and caddy
	release/try.sh 12
	$(BIN)/python release/image.py

release-tools:            ## what `make release` needs of the system, by apt
	sudo apt-get install --yes --no-install-recommends debootstrap debian-archive-keyring dpkg-dev

sizes: $(STAMP)           ## what an installation takes, by package
	@$(BIN)/python release/sizes.py $(ARGS)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .demo dist build

# The environment is made once and again when the dependencies change.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "memd needs Python 3.11 or newer"'
	@echo "installing memd and what it stands on into $(VENV): some 900 MB on the disk, 600 of them for memd itself; minutes the first time"
	test -x $(BIN)/python || $(if $(UV),$(UV) venv --seed,$(PYTHON) -m venv) $(VENV)
	$(if $(UV),,$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1')
	$(INSTALL) --editable '.[all]' --group dev
	touch $(STAMP)
