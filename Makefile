# `make train`, `make test` and the others set themselves up: Python 3.11 to 3.13 with venv is all they need.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: train test lint docs zoo notebooks clean

train: $(VENV)/installed
	$(BIN)/python train/lm.py $(ARGS)

test: $(VENV)/installed_tests
	$(BIN)/python -m pytest -n 2 $(ARGS)

lint: $(VENV)/installed_tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/installed_docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site is in build/site."

zoo: $(VENV)/installed_tests
	$(BIN)/python -m studies

notebooks: $(VENV)/installed_tests
	$(BIN)/python -m studies.notebooks $(ARGS)

$(VENV)/installed: setup.cfg pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/installed_tests: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable .[test]
	touch $@

$(VENV)/installed_docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable .[docs]
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
