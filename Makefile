# make book [SCALE=quick|paper]   run the notebooks and build the book: book/_build/html/index.html
# make site                       build the book from the published notebooks, running nothing
# make publish                    run at paper scale and keep the result in book/published/
# make test | lint | bench | check (the built book in a browser)

PYTHON ?= python3
SCALE ?= quick
BIN := .venv/bin
READY := .venv/.ready

.PHONY: book site publish test lint bench check

book: $(READY)
	@$(BIN)/doit html scale=$(SCALE)
	@echo book/_build/html/index.html

site: $(READY)
	@$(BIN)/doit html scale=published
	@echo book/_build/html/index.html

publish: $(READY)
	@$(BIN)/doit publish scale=paper

test: $(READY)
	$(BIN)/pytest --numprocesses=auto --dist=loadfile

lint: $(READY)
	$(BIN)/ruff check .

bench: $(READY)
	@set -e; for script in benchmarks/[!_]*.py; do $(BIN)/python $$script; done

check: $(READY)
	$(BIN)/python tools/check_html.py book/_build/html

# Touched last, so that an interrupted installation is never taken for a finished one.
$(READY): requirements.lock pyproject.toml book/pyproject.toml
	$(PYTHON) -m venv .venv
	PIP_USE_PEP517=1 $(BIN)/pip install --quiet --requirement requirements.lock  # seqeval has no wheel
	$(BIN)/pip install --quiet --no-deps --editable . --editable book
	@touch $@
