# Two commands on a fresh machine: `make demo` and `make test`. Both install what they need into .venv.
VENV   := .venv
PYTHON := $(VENV)/bin/python
.PHONY: demo test soak mutants lint docs links reference wheel browser nginx clean

$(VENV)/.installed: pyproject.toml
	test -x $(PYTHON) || python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: $(VENV)/.installed
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

demo: $(VENV)/.installed
	$(PYTHON) tools/fresh_kernels.py
	$(VENV)/bin/tuplet demo

# Style, formatting, types, and the layers that pyproject.toml states.
lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	PYTHONPATH=src $(VENV)/bin/lint-imports --no-logo

docs: $(VENV)/.installed-test
	$(VENV)/bin/mkdocs build --strict --quiet

links: $(VENV)/.installed-test
	$(PYTHON) tools/links.py

# The reference pages that are made from the code; a test says when they are out of date.
reference: $(VENV)/.installed-test
	PYTHONPATH=src $(PYTHON) tools/reference.py

# The wheel, built, installed into an empty environment and used there.
wheel: $(VENV)/.installed-test
	$(PYTHON) tools/wheel.py

# The tests of the web page drive Debian's chromium; where it cannot be had, they are skipped and say so.
browser:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 || true

# Those of the recipe for a balancer drive a real nginx, likewise.
nginx:
	@command -v nginx >/dev/null || test -x /usr/sbin/nginx || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq nginx-light; } >/dev/null 2>&1 || true

test: lint docs links wheel browser nginx
	$(PYTHON) tools/fresh_kernels.py
	$(VENV)/bin/pytest -n 2 src tests

soak: lint browser nginx
	$(PYTHON) tools/fresh_kernels.py
	TUPLET_SOAK=1 $(VENV)/bin/pytest -n 2 src tests

# 200 one-line mutants, each judged by the tests of its folder: an hour or two on 2 cores; goes on where it was.
mutants: $(VENV)/.installed-test
	$(PYTHON) tools/mutants.py --count 200 --seed 0

clean:
	rm -rf $(VENV) build dist site *.egg-info src/*.egg-info
