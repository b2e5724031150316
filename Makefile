# Two commands on a fresh machine: `make demo` and `make test`. Both install what they need into .venv.
VENV   := .venv
PYTHON := $(VENV)/bin/python
.PHONY: demo test checks suite early head-start kernels soak mutants paper tuple-h lint docs links notebooks reference wheel rooms release-check browser nginx clean

# Python compiles what it imports when it does; compiling everything that is installed takes half a minute.
PIP := $(PYTHON) -m pip install --quiet --disable-pip-version-check --no-compile

$(VENV)/.installed: pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.installed-test: pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PIP) -e '.[test]'
	touch $(VENV)/.installed $@

# What compiling the kernels needs: all that pyproject.toml names but torch.
$(VENV)/.installed-core: pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PIP) $$($(PYTHON) -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	  print(*(one for one in project['dependencies'] if not one.startswith('torch')))")
	touch $@

demo: $(VENV)/.installed
	$(PYTHON) tools/fresh_kernels.py
	$(VENV)/bin/tuplet demo

# Style, formatting, types, and the layers that pyproject.toml states; the size of every room, as information.
lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=src $(VENV)/bin/lint-imports --no-logo
	$(PYTHON) tools/size.py

docs: $(VENV)/.installed-test
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet

links: $(VENV)/.installed-test
	$(PYTHON) tools/links.py

# The reference pages that are made from the code; a test says when they are out of date.
reference: $(VENV)/.installed-test
	PYTHONPATH=src $(PYTHON) tools/reference.py

# Run the notebooks and store what they show; the tests run them too and compare.
notebooks: $(VENV)/.installed-test
	$(PYTHON) tools/notebooks.py

# The wheel, built, installed into an empty environment and used there.
wheel: $(VENV)/.installed-test
	$(PYTHON) tools/wheel.py

# The tree without the server and the laboratory imports, type-checks and passes its contract tests.
rooms: lint kernels
	$(PYTHON) tools/without_rooms.py

# Wheel and source distribution, built twice, read by twine, installed and used with every Python at hand; into dist/.
release-check: $(VENV)/.installed-test
	$(PIP) build twine
	$(PYTHON) tools/release_check.py

# The tests of the web page drive Debian's chromium; where it cannot be had, they are skipped and say so.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 || true

# Those of the recipe for a balancer drive a real nginx, likewise.
nginx: browser
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nginx-light; } >/dev/null 2>&1 || true

# All kernels, so that no two tests compile the same.
kernels: $(VENV)/.installed-core
	$(PYTHON) tools/fresh_kernels.py --compile

# While one core installs most of the rest, the other compiles the kernels. That is a head start: should it trip over a
# package that is half installed, what is missing is compiled before the tests.
early: $(VENV)/.installed-core
	$(MAKE) --no-print-directory -j 3 head-start nginx $(VENV)/.installed-test

head-start: $(VENV)/.installed-core
	-$(PYTHON) tools/fresh_kernels.py --compile

checks: lint docs links wheel rooms

# Each of three workers begins with a third of the tests in their order, so that most fixtures are made once; one that
# is done takes over from the others. Nothing is tried twice: random cases, hashes and the like are the same in each run.
suite: $(VENV)/.installed-test kernels nginx
	OMP_NUM_THREADS=1 PYTHONHASHSEED=0 $(VENV)/bin/pytest -n 3 --dist worksteal src tests

# Style, types, pages, links and wheel are looked at beside the tests.
test: early
	$(MAKE) --no-print-directory -j 2 suite checks

# The same tests with many more cases from new seeds. What fails is printed with the line that repeats it; a part of it:
# make soak TESTS=tests/lang TUPLET_SOAK_EXAMPLES=100000
SEED  := $(or $(SEED),$(shell od -An -N3 -tu4 /dev/urandom | tr -d ' '))
TESTS ?= src tests
soak: lint nginx kernels $(VENV)/.installed-test
	$(PYTHON) tools/without_rooms.py --all
	TUPLET_SOAK=1 TUPLET_SOAK_SEED=$(SEED) PYTHONHASHSEED=$(SEED) $(VENV)/bin/pytest -n 2 --timeout 0 $(TESTS)

# 120 one-line mutants, each judged by the tests of its room: an hour or two on 2 cores; resumes after an interruption.
mutants: $(VENV)/.installed-test
	$(PYTHON) tools/mutants.py --count 120

# The query sets tuple-H of four graphs, compared with their checksums; half an hour on one core.
tuple-h: $(VENV)/.installed
	$(PYTHON) benchmarks/tuple_h.py --data "$(TUPLET_DATA)" $(if $(WORKERS),--workers $(WORKERS)) -o out/tuple-h

# Every table of the NS3 paper, and ours, with the origin of each number; without a GPU. Hours; a look: PER_SHAPE=5.
TRUTH ?= $(TUPLET_DATA)/../truth
PER_SHAPE ?= 500
paper: $(VENV)/.installed
	$(PYTHON) benchmarks/paper.py --data "$(TUPLET_DATA)" --truth "$(TRUTH)" $(if $(MODELS),--models "$(MODELS)") \
	  $(if $(WORKERS),--workers $(WORKERS)) --per-shape $(PER_SHAPE) -o out/paper

clean:
	rm -rf $(VENV) build dist site *.egg-info src/*.egg-info
