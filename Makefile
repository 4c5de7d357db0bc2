# The front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The GPU half is built where there is a GPU and a compiler for it; PRESET=... decides otherwise.
# Presets: cpu, gpu, all-archs, asan (CMakePresets.json).
HAS_GPU := $(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),yes)
CUDA_BIN := $(patsubst %/nvcc,%,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
PRESET ?= $(if $(and $(HAS_GPU),$(CUDA_BIN)),gpu,cpu)
BIN := build/$(PRESET)/bin
GPU_HALF := $(filter-out cpu asan,$(PRESET))
NO_GPU_WHY := $(if $(HAS_GPU),there is a GPU but no nvcc: install the CUDA toolkit,this machine has no GPU)
export PATH := $(if $(CUDA_BIN),$(CUDA_BIN):)$(PATH)

# Asked for at each use, as `deps` may just have made it.
PYTHON = $(shell [ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)
JOBS := $(shell nproc)
RESULTS := results
RECORDED := $(firstword $(wildcard data/recorded/*))

# What the measuring targets take.
FILE ?=
KERNEL ?=
PEER ?=
DRY_RUN ?=
peers = $(foreach library,$(PEER),--peer "$(library)")
dry_run = $(if $(DRY_RUN),--dry-run)

.PHONY: help deps build test test-sanitized verify list bench reproduce-table2 render-recorded check \
  format clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  variables: PRESET=cpu|gpu|all-archs|asan  PEER=path/to/libbitsandbytes_cuda*.so  DRY_RUN=1"

deps: build/deps.stamp ## Find what is needed, install what is missing (root) or name it

build/deps.stamp: scripts/deps.sh scripts/probe/CMakeLists.txt requirements.txt
	@scripts/deps.sh
	@mkdir -p build && touch $@

build: deps ## Configure and build everything this machine can
	@$(MAKE) $(BIN)/.all TARGET=all

# One recursive call for each set of programs, so that a target builds only what it runs.
.PHONY: $(BIN)/.all
$(BIN)/.all: build/$(PRESET)/CMakeCache.txt
	@cmake --build build/$(PRESET) -j$(JOBS) --target $(TARGET)

build/$(PRESET)/CMakeCache.txt: CMakePresets.json build/deps.stamp
	@cmake --preset $(PRESET) >build/configure-$(PRESET).log 2>&1 || \
	  { rm -f $@; tail -n 20 build/configure-$(PRESET).log; exit 2; }

test: build ## Run every test that this machine can
	@ctest --test-dir build/$(PRESET) -j$(JOBS) --output-on-failure
	@$(if $(and $(HAS_GPU),$(GPU_HALF)),,echo "GPU TESTS SKIPPED: $(NO_GPU_WHY). Nothing above ran a kernel.")
	@$(PYTHON) -m pytest -q

test-sanitized: ## The tests of the CPU half under AddressSanitizer
	@$(MAKE) build PRESET=asan
	@ctest --test-dir build/asan -j$(JOBS) --output-on-failure

verify: deps ## Prove every output of a checkpoint: make verify FILE=x.safetensors [PEER=...]
	@[ -n "$(FILE)" ] || { echo "verify: say which file: make verify FILE=x.safetensors" >&2; exit 2; }
	@$(MAKE) $(BIN)/.all TARGET=verify
	@$(BIN)/verify "$(FILE)" $(peers)

list: deps ## List every registered kernel
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --list
else
	@$(PYTHON) -m plots list --recorded $(RECORDED)/table2/shapes.json
	@echo "To list this checkout's own kernels (needs nvcc, no GPU): make list PRESET=all-archs"
endif

bench: deps ## Measure kernels alone: make bench KERNEL=name [PEER=...] [DRY_RUN=1]
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --kernel "$(KERNEL)" $(peers) $(dry_run) --output $(RESULTS)/bench.json
	@$(if $(DRY_RUN),,$(PYTHON) -m plots bench --results $(RESULTS)/bench.json)
else
	@echo "bench: nothing to measure: $(NO_GPU_WHY)" >&2; exit 2
endif

# Results are files with rules: rendering again never measures again.
SHAPES := $(RESULTS)/table2/shapes.json
REPLAY := $(RESULTS)/table2/replay.json
GOLDEN := tests/golden/golden_seed1.safetensors

reproduce-table2: deps ## The paper's Table II: verify, measure (with a GPU), tables and figures
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET="verify bench table2_replay"
ifeq ($(DRY_RUN),)
	@$(BIN)/verify $(GOLDEN) $(peers) | sed -n '/^summary/,$$p'
endif
	@$(BIN)/bench --family nf4 --experiment table2 --pass shapes $(peers) $(dry_run) --output $(SHAPES)
	@$(BIN)/table2_replay $(peers) $(dry_run) --output $(REPLAY)
	@$(if $(DRY_RUN),,$(PYTHON) -m plots table2 --shapes $(SHAPES) --replay $(REPLAY) --output $(RESULTS)/table2)
else ifneq ($(DRY_RUN),)
	@echo "Without a GPU: builds the CPU half (5 minutes on 2 cores), verifies $(GOLDEN) on the CPU,"
	@echo "and renders the recorded run $(RECORDED)/table2 to $(RESULTS)/table2-recorded. 1 GB of memory."
else
	@echo "Nothing is measured here: $(NO_GPU_WHY). The CPU check, and a recorded run:"
	@$(MAKE) $(BIN)/.all TARGET=verify
	@$(BIN)/verify $(GOLDEN) | sed -n '/^summary/,$$p'
	@$(MAKE) render-recorded
endif

render-recorded: deps ## Render the recorded run, under a banner that says whose it is
	@$(PYTHON) -m plots table2 --recorded --shapes $(RECORDED)/table2/shapes.json \
	  --replay $(RECORDED)/table2/replay.json --output $(RESULTS)/table2-recorded

check: deps ## Check formatting, generated tables, and every command and path in README
	@scripts/check_format.sh
	@$(PYTHON) -m plots readme --check --recorded-dir data/recorded --readme README.md
	@$(PYTHON) scripts/check_readme.py README.md experiments/*/README.md

format: ## Format the C++ and Python files
	@scripts/check_format.sh --fix

clean: ## Remove builds (results stay)
	@rm -rf build
