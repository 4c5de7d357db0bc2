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
NO_GPU_WHY := $(if $(HAS_GPU),$(if $(CUDA_BIN),PRESET=$(PRESET) leaves the GPU out,there is a GPU but no nvcc: install the CUDA toolkit),this machine has no GPU)
# One architecture instead of the preset's: compiles the GPU half where there is no GPU.
ARCH ?=
export PATH := $(if $(CUDA_BIN),$(CUDA_BIN):)$(PATH)

# Asked for at each use, as `deps` may just have made it.
PYTHON = $(shell cat build/python 2>/dev/null || echo python3)
JOBS := $(shell nproc)
RESULTS := results
# The recorded run that is shown where nothing can be measured.
RECORDED ?= data/recorded/h200

# What the measuring targets take.
FILE ?=
KERNEL ?=
PEER ?=
DRY_RUN ?=
peers = $(foreach library,$(PEER),--peer "$(library)")

# A folder with a file `passes` is an experiment: docs/adding-an-experiment.md.
EXPERIMENTS := $(patsubst experiments/%/passes,%,$(wildcard experiments/*/passes))
REPRODUCE := $(addprefix reproduce-,$(EXPERIMENTS))

# Measuring and building beside each other would spoil both.
.NOTPARALLEL:

.PHONY: help deps build test test-sanitized verify list bench $(REPRODUCE) render \
  render-recorded claims check format clean

help: ## List the targets
	@$(foreach name,$(EXPERIMENTS),printf '  %-20s %s\n' reproduce-$(name) \
	  "$$(sed -n '1s/^# *//p' experiments/$(name)/README.md)";)
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  variables: PRESET=cpu|gpu|all-archs|asan  ARCH=90  PEER=path/to/libbitsandbytes_cuda*.so  DRY_RUN=1"

deps: build/deps.stamp ## Find what is needed, install what is missing (root) or name it
	@:

build/deps.stamp: scripts/deps.sh scripts/probe/CMakeLists.txt requirements.txt
	@scripts/deps.sh
	@touch $@

build: deps ## Configure and build everything this machine can
	@$(MAKE) $(BIN)/.all TARGET=all

# One recursive call for each set of programs, so that a target builds only what it runs.
.PHONY: $(BIN)/.all
$(BIN)/.all: build/$(PRESET)/CMakeCache.txt
	@echo "building (log: build/build-$(PRESET).log)" >&2
	@cmake --build build/$(PRESET) -j$(JOBS) --target $(TARGET) >build/build-$(PRESET).log 2>&1 || \
	  { grep -E -A5 'error|Error' build/build-$(PRESET).log | head -n 40 >&2; exit 2; }

build/$(PRESET)/CMakeCache.txt: CMakePresets.json build/deps.stamp
	@[ "$(PRESET)" != gpu ] || [ -n "$(HAS_GPU)$(ARCH)" ] || \
	  { echo "PRESET=gpu: no GPU here; add ARCH=90, or another architecture" >&2; exit 2; }
	@cmake --preset $(PRESET) $(if $(ARCH),-DCMAKE_CUDA_ARCHITECTURES=$(ARCH)) \
	  >build/configure-$(PRESET).log 2>&1 || \
	  { rm -f $@; tail -n 20 build/configure-$(PRESET).log >&2; exit 2; }

test: build ## Run every test that this machine can
	@ctest --test-dir build/$(PRESET) -j$(JOBS) --output-on-failure --progress
	@$(PYTHON) -m pytest -q
	@$(if $(and $(HAS_GPU),$(GPU_HALF)),,echo "GPU TESTS SKIPPED: $(NO_GPU_WHY). Nothing above ran a kernel.")

test-sanitized: ## The tests of the CPU half under AddressSanitizer
	@$(MAKE) build PRESET=asan
	@ctest --test-dir build/asan -j$(JOBS) --output-on-failure --progress

verify: deps ## Prove every output of a checkpoint: make verify FILE=x.safetensors [PEER=...]
	@[ -n "$(FILE)" ] || { echo "verify: say which file: make verify FILE=x.safetensors" >&2; exit 2; }
	@$(MAKE) $(BIN)/.all TARGET=verify
	@$(BIN)/verify "$(FILE)" $(peers)

list: deps ## List the kernels (without a GPU: those of the recorded runs)
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --list
else
	@$(PYTHON) -m plots list --recorded $(wildcard $(RECORDED)/*/*.json)
	@echo "To compile and list this checkout's own (needs nvcc, no GPU): make list PRESET=gpu ARCH=90"
endif

bench: deps ## Measure kernels alone (all of them without KERNEL): make bench KERNEL=name [PEER=...]
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --kernel "$(KERNEL)" $(peers) $(if $(DRY_RUN),--dry-run) --output $(RESULTS)/bench.json
	@$(if $(DRY_RUN),,$(PYTHON) -m plots bench --results $(RESULTS)/bench.json)
else
	@echo "bench: nothing to measure: $(NO_GPU_WHY)" >&2; exit 2
endif

# scripts/reproduce takes these from the environment. MEASURE: empty where nothing can be measured.
export MEASURE = $(GPU_HALF)
export BIN RESULTS RECORDED PYTHON PEER DRY_RUN NO_GPU_WHY

$(REPRODUCE): reproduce-%: deps
	@programs="$$(scripts/reproduce $* --programs)" && \
	  { [ -z "$$programs" ] || $(MAKE) $(BIN)/.all TARGET="$$programs"; }
	@scripts/reproduce $*

# Rendering never measures.
measured = $(notdir $(wildcard $(addprefix $(RESULTS)/,$(EXPERIMENTS))))
recorded = $(notdir $(wildcard $(addprefix $(RECORDED)/,$(EXPERIMENTS))))
render_to = $(PYTHON) -m plots render $(1) --results $(2)/$(1) --output $(RESULTS)/$(1)

render: deps ## Render your own results again
	@[ -n "$(measured)" ] || { echo "render: no results yet; make $(firstword $(REPRODUCE))" >&2; exit 2; }
	@$(foreach name,$(measured),$(call render_to,$(name),$(RESULTS)) &&) :

render-recorded: deps ## Render the recorded runs, under a banner that says whose they are
	@[ -n "$(recorded)" ] || \
	  { echo "render-recorded: no recorded run in $(RECORDED); RECORDED=<folder> names another" >&2; \
	  exit 2; }
	@$(foreach name,$(recorded),$(call render_to,$(name),$(RECORDED))-recorded --recorded &&) :

claims: deps ## Decide every published claim from all that was recorded or measured here
	@$(PYTHON) -m plots claims --results data/recorded $(if $(wildcard $(RESULTS)),--results $(RESULTS)) \
	  --output $(RESULTS)/claims

check: deps ## Check formatting, generated tables, and every command and path in the documents
	@scripts/check_format.sh
	@$(PYTHON) -m plots document --check
	@$(PYTHON) scripts/check_documents.py *.md docs/*.md experiments/*/README.md

format: ## Format the C++ and Python files
	@scripts/check_format.sh --fix

clean: ## Remove builds (results stay)
	@rm -rf build
