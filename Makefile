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
dry_run = $(if $(DRY_RUN),--dry-run)

# Measuring and building beside each other would spoil both.
.NOTPARALLEL:

.PHONY: help deps build test test-sanitized verify list bench reproduce-table2 \
  reproduce-transpose render render-recorded check format clean

help: ## List the targets
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

list: deps ## List the kernels (without a GPU: those of the recorded run)
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --list
else
	@$(PYTHON) -m plots list --recorded $(wildcard $(RECORDED)/table2/shapes.json $(RECORDED)/transpose/sizes.json)
	@echo "To compile and list this checkout's own (needs nvcc, no GPU): make list PRESET=gpu ARCH=90"
endif

bench: deps ## Measure kernels alone (all of them without KERNEL): make bench KERNEL=name [PEER=...]
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET=bench
	@$(BIN)/bench --kernel "$(KERNEL)" $(peers) $(dry_run) --output $(RESULTS)/bench.json
	@$(if $(DRY_RUN),,$(PYTHON) -m plots bench --results $(RESULTS)/bench.json)
else
	@echo "bench: nothing to measure: $(NO_GPU_WHY)" >&2; exit 2
endif

# Rendering again never measures again: make render. $(call render_...,folder of result files).
render_table2 = $(PYTHON) -m plots table2 --shapes $(1)/shapes.json --replay $(1)/replay.json
render_transpose = $(PYTHON) -m plots transpose --matrix $(1)/matrix.json --sizes $(1)/sizes.json
render_own = $(call render_$(1),$(RESULTS)/$(1)) --output $(RESULTS)/$(1)
render_its_record = $(call render_$(1),$(RECORDED)/$(1)) --recorded --output $(RESULTS)/$(1)-recorded

# pass FILE COMMAND...: a wrong output (status 1, and the file is there) has its row and no time;
# the other passes still run and are shown. A pass that broke leaves no older file in its place.
pass = worst=0; pass() { file=$$1; shift; rm -f $$file; "$$@" || { s=$$?; \
  [ $$s -eq 1 ] && [ -e $$file ] || exit $$s; worst=1; }; }
passes_table2 = --family nf4 --experiment table2 --pass shapes $(peers)
passes_transpose = --family transpose --experiment transpose --pass sizes

GOLDEN := tests/golden/golden_seed1.safetensors
verify_summary = awk '/^summary/ { all = 1 } all || /mismatch|launch_failed/' $(RESULTS)/verify.log

reproduce-table2: deps ## The paper's Table II: verify, measure (with a GPU), tables and figures
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET="verify bench table2_replay"
	@mkdir -p $(RESULTS)
ifeq ($(DRY_RUN),)
	@$(pass); own=$(RESULTS)/table2; \
	verify_golden() { $(BIN)/verify $(GOLDEN) $(peers) > $(RESULTS)/verify.log; }; \
	pass $(RESULTS)/verify.log verify_golden; $(verify_summary); \
	pass $$own/shapes.json $(BIN)/bench $(passes_table2) --output $$own/shapes.json; \
	pass $$own/replay.json $(BIN)/table2_replay $(peers) --output $$own/replay.json; \
	$(call render_own,table2) && exit $$worst
else
	@$(BIN)/bench $(passes_table2) --dry-run
	@$(BIN)/table2_replay $(peers) --dry-run
endif
else ifneq ($(DRY_RUN),)
	@echo "Nothing can be measured: $(NO_GPU_WHY). Instead: builds the verifier (a minute on 2 cores),"
	@echo "verifies $(GOLDEN) on the CPU, and renders the recorded run"
	@echo "$(RECORDED)/table2 to $(RESULTS)/table2-recorded. 1 GB of memory."
else
	@echo "Nothing is measured here: $(NO_GPU_WHY). The CPU check, and a recorded run:"
	@$(MAKE) $(BIN)/.all TARGET=verify
	@mkdir -p $(RESULTS) && $(BIN)/verify $(GOLDEN) > $(RESULTS)/verify.log; status=$$?; $(verify_summary); \
	exit $$status
	@$(call render_its_record,table2)
endif

reproduce-transpose: deps ## The transpose post: verify, measure (with a GPU), tables and figures
ifneq ($(GPU_HALF),)
	@$(MAKE) $(BIN)/.all TARGET="bench transpose_matrix"
ifeq ($(DRY_RUN),)
	@$(pass); own=$(RESULTS)/transpose; \
	pass $$own/matrix.json $(BIN)/transpose_matrix --output $$own/matrix.json; \
	pass $$own/sizes.json $(BIN)/bench $(passes_transpose) --output $$own/sizes.json; \
	$(call render_own,transpose) && exit $$worst
else
	@$(BIN)/transpose_matrix --dry-run
	@$(BIN)/bench $(passes_transpose) --dry-run
endif
else ifneq ($(DRY_RUN),)
	@echo "Nothing can be measured: $(NO_GPU_WHY). Instead: checks the index functions of the kernels"
	@echo "and the reference on the CPU (a minute on 2 cores to build), and renders the recorded run"
	@echo "$(RECORDED)/transpose to $(RESULTS)/transpose-recorded. 1 GB of memory."
else
	@echo "Nothing is measured here: $(NO_GPU_WHY). The CPU check, and a recorded run:"
	@$(MAKE) $(BIN)/.all TARGET="transpose_indices_test transpose_test reference_test"
	@$(BIN)/transpose_indices_test --gtest_brief=1
	@$(BIN)/transpose_test --gtest_brief=1
	@$(BIN)/reference_test --gtest_brief=1 --gtest_filter='Transpose*:DistinctValue*'
	@$(call render_its_record,transpose)
endif

render: deps ## Render your own results again
	@[ -e $(RESULTS)/table2 ] || [ -e $(RESULTS)/transpose ] || \
	  { echo "render: no results yet; make reproduce-table2 or make reproduce-transpose" >&2; exit 2; }
	@[ ! -e $(RESULTS)/table2 ] || $(call render_own,table2)
	@[ ! -e $(RESULTS)/transpose ] || $(call render_own,transpose)

render-recorded: deps ## Render the recorded runs, under a banner that says whose they are
	@[ -e $(RECORDED)/table2 ] || [ -e $(RECORDED)/transpose ] || \
	  { echo "render-recorded: no recorded run in $(RECORDED); RECORDED=<folder> names another" >&2; \
	  exit 2; }
	@[ ! -e $(RECORDED)/table2 ] || $(call render_its_record,table2)
	@[ ! -e $(RECORDED)/transpose ] || $(call render_its_record,transpose)

check: deps ## Check formatting, generated tables, and every command and path in README
	@scripts/check_format.sh
	@$(PYTHON) -m plots readme --check --recorded-dir data/recorded --readme README.md
	@$(PYTHON) scripts/check_readme.py README.md experiments/*/README.md

format: ## Format the C++ and Python files
	@scripts/check_format.sh --fix

clean: ## Remove builds (results stay)
	@rm -rf build
