# make book [SCALE=quick|paper]   run the notebooks and build the book: book/_build/html/index.html
# make site                       build the book from the published notebooks, running nothing
# make pdf                        the built book as one document: book/_build/html/acvlib.pdf
# make publish                    run at paper scale and keep the result in book/published/
# make test | test-coverage       test the library, which needs a small environment only
# make test-laws                  the laws and the attack on all that is public, with more examples
# make test-nightly               the laws with 2,000 examples each, which takes days: goes on where it stopped
# make test-book                  test the book's own code, and models in torch, in the environment of the book
# make test-data                  test the data sets again, where $ACVLIB_DATA has them
# make lint | wheel               style and types; the package as pip installs it
# make bench                      speed: runs the benchmarks not yet recorded in build/bench/
# make publish-bench              keep the records in book/published/
# make check                      the built book in a browser
# make release                  whether version, CHANGELOG, CITATION, .zenodo.json and tag agree
# make lock                       refresh requirements/*.txt: the sha256 of what requirements.lock names; needs uv

PYTHON ?= python3
SCALE ?= quick
BIN := .venv/bin
LIBRARY := .venv/.library
READY := .venv/.ready
comma := ,
PYTEST := $(BIN)/pytest --numprocesses=auto --dist=loadfile

.PHONY: book site pdf publish test test-coverage test-laws test-nightly test-book test-data lint wheel bench publish-bench check release lock

book: $(READY)
	@$(BIN)/doit html scale=$(SCALE)
	@echo book/_build/html/index.html

site: $(READY)
	@$(BIN)/doit html scale=published
	@echo book/_build/html/index.html

pdf: $(READY)
	$(BIN)/python tools/make_pdf.py build/book book/_build/html

publish: $(READY)
	@$(BIN)/doit publish scale=paper

test: $(LIBRARY)
	$(PYTEST) --dist=worksteal --ignore=tests/book

test-coverage: $(LIBRARY)
	$(PYTEST) --ignore=tests/book --cov

test-laws: $(READY)
	HYPOTHESIS_PROFILE=ci $(PYTEST) tests/laws tests/attack

test-nightly: $(patsubst tests/%.py,build/nightly/%,$(wildcard tests/laws/test_*.py))
	rm -r build/nightly  # the next time draws others

build/nightly/%: tests/%.py $(shell find acvlib tests/laws tests/oracles -name '*.py') | $(READY)
	HYPOTHESIS_PROFILE=nightly $(PYTEST) --dist=worksteal $<
	@mkdir -p $(@D) && touch $@

test-book: $(READY)
	$(PYTEST) tests/book tests/adapters  # torch is here

test-data: $(READY)
	$(PYTEST) $(wildcard tests/book/test_datasets*.py) tests/book/test_stand_ins.py tests/book/test_confidential.py

lint: $(LIBRARY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(LIBRARY)
	$(BIN)/python tools/check_wheel.py

bench: $(patsubst benchmarks/%.py,build/bench/%.json,$(wildcard benchmarks/[!_]*.py))

build/bench/%.json: benchmarks/%.py $(wildcard benchmarks/_*.py) $(shell find acvlib -name '*.py') | $(READY)
	$(BIN)/python tools/bench.py $*

publish-bench: bench
	$(BIN)/python tools/bench.py publish

check: $(READY)
	$(BIN)/python tools/check_html.py book/_build/html

release: $(LIBRARY)
	$(BIN)/python tools/check_release.py

compile := uv pip compile --quiet --generate-hashes --no-annotate --no-header --python-version 3.11.7
lock:  # torch is in neither: its wheel is another one on machines without an accelerator
	$(compile) pyproject.toml --extra all --extra dev --constraint requirements.lock --output-file requirements/library.txt
	grep -v ^torch== requirements.lock | $(compile) --no-deps - --output-file requirements/book.txt

# Each is touched last, so that an interrupted installation is never taken for a finished one.
# Packages come by their sha256; what is left then is torch, and what another system needs besides.
install = $(BIN)/pip install --quiet $(1) || { \
	echo "pip could not install: $(1). Packages come from Python's package index, once: are you offline?"; exit 1; }

$(LIBRARY): requirements.lock requirements/library.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("acvlib needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.12, say")'
	@test -w . || { echo "$(CURDIR) cannot be written: make installs what it needs in .venv here"; exit 1; }
	$(PYTHON) -m venv .venv
	@$(call install,--require-hashes --no-deps --requirement requirements/library.txt)
	@$(call install,--constraint requirements.lock --editable '.[all$(comma)dev]')
	@touch $@

$(READY): $(LIBRARY) requirements/book.txt book/pyproject.toml
	@export PIP_USE_PEP517=1; $(call install,--require-hashes --no-deps --requirement requirements/book.txt)  # seqeval has no wheel
	@$(call install,--requirement requirements.lock)
	@$(call install,--no-deps --editable book)
	@touch $@
