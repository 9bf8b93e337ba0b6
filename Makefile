# The verbs of juzhen. `make` or `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export HF_HUB_OFFLINE ?= 1
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs

.DEFAULT_GOAL := help
.PHONY: help install demo serve test same check docs docs-serve bench dashboards clean

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## Make the environment .venv, everything pinned by constraints.txt

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $(PYTHON) is older than Python 3.11. Name a newer one: make PYTHON=python3.12 …" >&2; exit 1; }
	@echo "making the environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "fetching the packages that constraints.txt pins:"
	@{ $(BIN)/pip install --progress-bar off --editable ".[dev]" --constraint constraints.txt || touch $(VENV)/.failed; } 2>&1 \
	    | tee $(VENV)/install.log | while read -r word name rest; do case "$$word $$name" in \
	        "Obtaining "*) echo "  juzhen itself, for its requirements" ;; \
	        "Collecting "*) echo "  $${name%%[!A-Za-z0-9_.-]*}" ;; \
	        "Installing collected") echo "unpacking them, which takes about as long again" ;; esac; done
	@if test -e $(VENV)/.failed; then rm $(VENV)/.failed; tail -n 20 $(VENV)/install.log >&2; \
	    echo "error: pip failed. Its whole output is in $(VENV)/install.log" >&2; exit 1; fi
	@touch $@
	@echo "ready. Next: make demo, or source $(BIN)/activate"

demo: $(READY) ## Train and evaluate on what the repository ships; ends in a table
	$(BIN)/python train.py experiment=demo run_dir=runs/demo resume=auto
	$(BIN)/python train.py model=lexical 'dataset=[]' logger=csv resume=auto
	$(BIN)/python train.py backbone=random_small 'dataset=[]' logger=csv resume=auto
	$(BIN)/python -m juzhen table runs

serve: build/serve/.ready ## Search, compare and score in the browser, on the encoder in the box (PORT=8000)
	@echo "the page: http://127.0.0.1:$(or $(PORT),8000)/"
	$(BIN)/juzhen serve builtin/mini_zh --index build/serve/demo --port $(or $(PORT),8000)

build/serve/.ready: $(READY)
	@mkdir -p build/serve
	@for name in demo_qmc/dev demo_qmc/test demo_sts/dev demo_sts/test; do tail -n +2 juzhen/builtin/data/$$name.tsv; done \
	    | cut -f 1,2 | tr '\t' '\n' | awk '!seen[$$0]++' > build/serve/texts.txt
	$(BIN)/juzhen index build build/serve/demo builtin/mini_zh build/serve/texts.txt
	@touch $@

test: $(READY) ## Run the tests (minutes, no network)
	$(BIN)/python -m pytest -n 2 --dist worksteal

same: $(READY) ## Compare keys, rows, tables, embeddings, curves and weights with what is recorded in tests/same (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m tools.same

check: $(READY) ## Lint, format check, and the types of the library
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.docs ## Build the documentation site into build/site; a warning is an error
	$(BIN)/juzhen published docs/published.md
	$(MKDOCS) build --strict
	@echo "build/site/index.html"

docs-serve: $(VENV)/.docs ## Show the site at http://127.0.0.1:8000 while its pages are written
	$(MKDOCS) serve --dev-addr 127.0.0.1:8000

$(VENV)/.docs: $(READY)
	$(BIN)/pip install --quiet --editable ".[docs]" --constraint constraints.txt
	@touch $@

bench: $(READY) ## Measure speed and memory beside sentence-transformers (installs it; SCALE=tiny, modest or full)
	$(BIN)/pip install --quiet --editable ".[bench,onnx]" --constraint constraints.txt
	$(BIN)/python -m benchmarks all --scale $(or $(SCALE),modest)

dashboards: $(READY) ## Report and panels of RUNS (default runs) on Weights & Biases; without a key it says what to do
	$(BIN)/pip install --quiet --editable ".[dashboards]" --constraint constraints.txt
	$(BIN)/python -m juzhen dashboards $(or $(RUNS),runs)

clean: ## Remove the environment and the caches of tools; never results, nor .cache (rm -r .cache)
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
