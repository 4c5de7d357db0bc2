# The front door. `make help` lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# User input is data: make does not expand it, and recipes read it from the environment.
is_given = $(filter-out undefined,$(origin $1))
GIVEN := FILE EXPERIMENT KERNEL PROBLEM PEER METRICS CHIP CLOCKS DRY_RUN ARCH FUNCTION PRESET RESULTS RECORDED \
  MODEL BATCH BATCHES KERNELS TOKENS GENERATIONS PROMPTS GPU GPUS QUICK RESUME VERBOSE VERSION A B THRESHOLD ALLOW OUT OLDER \
  SET SECTION LAUNCHES \
  $(if $(call is_given,CUDA_VISIBLE_DEVICES),CUDA_VISIBLE_DEVICES)
$(foreach name,$(GIVEN),$(eval override $(name) := $$(value $(name))))
$(foreach flag,DRY_RUN QUICK RESUME VERBOSE,$(eval override $(flag) := $$(filter-out 0 no off false,$$($(flag)))))
export $(GIVEN)
# A variable of another name would have no effect.
is_unknown = $(filter command,$(firstword $(origin $1)))
UNKNOWN := $(subst ',,$(firstword $(foreach name,$(.VARIABLES),$(if $(call is_unknown,$(name)),$(name)))))
ifneq ($(UNKNOWN),)
  $(error $(UNKNOWN): no such variable (make help lists them))
endif
ifneq ($(and $(DRY_RUN),$(filter-out help bench profile verify reproduce-%,$(or $(MAKECMDGOALS),help))),)
  $(error DRY_RUN: only bench, profile, verify and reproduce-... support it)
endif
# A folder whose name begins with a hyphen is not an option.
folder = $(if $(filter -%,$(firstword $1)),./)$1
override RESULTS := $(call folder,$(or $(RESULTS),results))
override RECORDED := $(call folder,$(or $(RECORDED),data/recorded/h200))
IN_RECORDED := $(findstring $(CURDIR)/data/recorded/,$(realpath $(RESULTS))/)
ifneq ($(and $(IN_RECORDED),$(filter-out help report,$(MAKECMDGOALS))),)
  $(error RESULTS: $(RESULTS) is a recorded run, which stays as it is; name another folder)
endif

# The GPU half is built where there is a GPU and a compiler for it; PRESET=... decides otherwise.
PRESETS := cpu gpu all-archs asan
HIDDEN_GPU := $(if $(call is_given,CUDA_VISIBLE_DEVICES),$(if $(filter-out -1,$(CUDA_VISIBLE_DEVICES)),,yes))
export HAS_GPU := $(if $(HIDDEN_GPU),,$(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),yes))
CUDA_BIN := $(patsubst %/nvcc,%,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
override PRESET := $(or $(PRESET),$(if $(and $(HAS_GPU),$(CUDA_BIN)),gpu,cpu))
ifneq ($(words $(PRESET))$(filter-out $(PRESETS),$(PRESET)),1)
  $(error PRESET: give one of $(PRESETS))
endif
export BIN := build/$(PRESET)/bin
# Empty where nothing can be measured.
export MEASURE := $(filter-out cpu asan,$(PRESET))
export NO_GPU_WHY := $(if $(HAS_GPU),PRESET=$(PRESET) has no GPU half (nvcc: $(or $(CUDA_BIN),none)),no GPU is visible)
# Settings of the user's shell that do not apply to ours.
unexport CDPATH GLOBIGNORE BASH_ENV PYTHONHOME PYTHONPATH PYTHONSAFEPATH
# A make that a recipe runs would expand what the user gave.
unexport MAKEFLAGS MFLAGS MAKEOVERRIDES
export PATH := $(if $(CUDA_BIN),$(CUDA_BIN):)$(PATH)
JOBS := $(shell nproc)

# First lines of recipes that need a GPU or a variable.
needs_gpu = @[ -n "$$MEASURE" ] || { echo "$@: nothing to $1: $(NO_GPU_WHY)" >&2; exit 2; }
needs = @$(foreach name,$1,[ -n "$$$(name)" ] &&) true || { echo "$@: say $2" >&2; exit 2; }
# Builds programs, unless their commands are only shown.
build = $(if $(DRY_RUN),,@scripts/build $1)
# Runs a command when no other make builds what it runs, or measures on its GPUs; variables become its options.
run = scripts/python -m experiments run --take '$1'
TORCH = "$$(cat build/end_to_end/python)"

# A folder with an experiment.toml is an experiment: docs/adding-an-experiment.md.
EXPERIMENTS := $(patsubst experiments/%/experiment.toml,%,$(wildcard experiments/*/experiment.toml))
REPRODUCE := $(addprefix reproduce-,$(EXPERIMENTS))
.PHONY: help deps build test test-end_to_end test-sanitized verify list describe bench metrics profile profile-check \
  $(REPRODUCE) reproduce-table1 reproduce-figure4 advise tune peer render render-recorded report claims paper compare \
  record sass mojo triton dropin wheel lock check format clean is-model

help: ## List the targets
	@$(foreach name,$(EXPERIMENTS),printf '  %-20s %s\n' reproduce-$(name) \
	  "$$(sed -n '1s/^# *//p' experiments/$(name)/README.md)";)
	@awk -F':.*## ' '/^[a-z0-9_-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@sed -n 's/^#= \?/  /p' $(MAKEFILE_LIST)
#=
#= variables: PRESET=cpu|gpu|all-archs|asan  ARCH=90  PEER=path/to/libbitsandbytes_cuda*.so  DRY_RUN=1
#=            CLOCKS=1410|max  METRICS=sm__warps_launched.sum  VERBOSE=1  RESULTS=folder (of all targets that
#=            write results)  CUDA_VISIBLE_DEVICES=1 (the GPU, of all that run kernels)
#= of reproduce-...: GPUS=0,1 (divides its passes among them)  RESUME=1 (goes on with a run that was cut off)
#= of reproduce-table1 and -figure4: QUICK=1  MODEL=folder  BATCHES=2,8  KERNELS=shared_lut,global_lut
#=            TOKENS=32  GENERATIONS=9  PROMPTS=file.jsonl
#= of profile: SET=full  SECTION=SourceCounters,...  LAUNCHES=4  PROBLEM=28672x8192
#= of compare: THRESHOLD=1 (percent; fails if B is slower by more)  ALLOW=undecided,lost  OUT=folder
#= of record: OLDER=1 (replaces newer recorded results)

deps: build/python ## Find what is needed, install what is missing (root) or name it
	@scripts/deps build

# Names the Python that claims/ and plots/ run in. Found anew where that one is gone.
build/python: scripts/deps requirements.lock
	@scripts/deps python
ifeq ($(shell command -v "$$(cat build/python 2>/dev/null)"),)
.PHONY: build/python
endif

build: ## Configure and build everything this machine can
	@scripts/build all

test: $(if $(KERNEL),,build) build/python ## Run every test that this machine can; of one kernel: make test KERNEL=name
ifneq ($(KERNEL),)
	@scripts/test_kernel
else
	@$(run) ctest --test-dir build/$(PRESET) -j$(JOBS) --output-on-failure --progress
	@$(run) scripts/python -m pytest -q -n $(JOBS) --dist loadfile # by file: its tests share what is made once
	@[ -n "$$HAS_GPU" ] && [ -n "$$MEASURE" ] || echo "GPU TESTS SKIPPED: $$NO_GPU_WHY. Nothing above ran a kernel."
endif

test-end_to_end: build/end_to_end/python $(if $(MEASURE),dropin) ## The tests that need torch and bitsandbytes (5 GB)
	@scripts/build verify
	@$(run) $(TORCH) -m pytest -q --ignore-glob="*_claims.py" --ignore-glob="*/test_schedule.py" \
	  --ignore-glob="*/test_product.py" experiments/end_to_end experiments/product reprolab_nf4/tests # others need no PyTorch

test-sanitized: ## The tests of the CPU half under AddressSanitizer
	@PRESET=asan scripts/build all
	@ctest --test-dir build/asan -j$(JOBS) --output-on-failure --progress

verify: build/python ## Prove every output of a checkpoint: make verify FILE=<file or folder> [KERNEL=...] [PEER=...]
	$(call needs,FILE,which: make verify FILE=model.safetensors (or its folder))
	$(call build,verify)
	@$(call run,KERNEL PEER DRY_RUN) "$$BIN/verify" -- "$$FILE"

list: build/python ## List the kernels (without a GPU: those of the recorded runs)
ifneq ($(MEASURE),)
	@scripts/build bench
	@"$$BIN/bench" --list
else
	@scripts/python -m plots list --recorded "$$RECORDED"
	@echo "To compile and list this checkout's own (needs nvcc, no GPU): make list PRESET=gpu ARCH=90"
endif

describe: build/python ## Write what families and kernels are to data/families.json (needs nvcc, no GPU)
	@[ -n "$$MEASURE" ] || { echo "describe: needs what nvcc compiles: make describe PRESET=gpu ARCH=90" >&2; exit 2; }
	@scripts/build bench bench_ceilings latency puzzle
	@scripts/python -m records.families "$$BIN"

bench: build/python ## Measure kernels alone (all of them without KERNEL): make bench KERNEL=name [PEER=...]
	$(call needs_gpu,measure)
	$(call build,bench)
	@$(call run,KERNEL PEER METRICS CLOCKS DRY_RUN) "$$BIN/bench" $${METRICS:+--instrument counters} \
	  --output "$$RESULTS/bench$${METRICS:+_counters}.json"
	@[ -n "$$DRY_RUN" ] || scripts/python -m plots bench --results "$$RESULTS/bench$${METRICS:+_counters}.json"

metrics: ## List a chip's hardware counters, without a GPU: make metrics CHIP=A100 [METRICS='dram*']
	@scripts/build metrics
	@"$$BIN/metrics" $${CHIP:+--chip "$$CHIP"} $${METRICS:+--metrics "$$METRICS"}

profile: build/python ## Nsight Compute on one kernel: make profile EXPERIMENT=table2 KERNEL=name [PROBLEM=28672x8192]
	$(if $(DRY_RUN),,$(call needs_gpu,profile))
	$(call needs,EXPERIMENT KERNEL,what: make profile EXPERIMENT=table2 KERNEL=shared_lut)
	$(call build,bench)
	@$(call run,EXPERIMENT KERNEL PROBLEM SET SECTION LAUNCHES DRY_RUN) scripts/python -m ncu profile \
	  "--programs=$$BIN" "--results=$$RESULTS/profile"

profile-check: build/python ## Compare Nsight Compute with our own counters (four kernels without KERNEL)
	$(call needs_gpu,profile)
	@scripts/build bench
	@$(call run,EXPERIMENT KERNEL PROBLEM) scripts/python -m ncu check "--programs=$$BIN" "--results=$$RESULTS/profile"

$(REPRODUCE): reproduce-%: build/python
	@scripts/python -m experiments reproduce $*

# One measurement feeds both: what one has measured, the other only shows.
reproduce-table1: reproduce-end_to_end ## Table I of arXiv 2604.02556: dequantization's share of generating text
reproduce-figure4: reproduce-end_to_end ## Figure 4 of the same: latency and throughput

build/end_to_end/python: build/python experiments/end_to_end/requirements.lock scripts/end_to_end
	@scripts/end_to_end

ifneq ($(MEASURE),)
# Has a pass that needs PyTorch, which is left out where there is none.
WITH_TORCH := $(if $(wildcard build/end_to_end/python),reproduce-product)
$(if $(MODEL),advise) tune: is-model
$(if $(DRY_RUN),,reproduce-end_to_end $(WITH_TORCH)) $(if $(MODEL),advise) tune: build/end_to_end/python dropin
endif

is-model: # before PyTorch is installed
	@[ -z "$$MODEL" ] || [ -e "$$MODEL" ] || { echo "MODEL: there is no such folder" >&2; exit 2; }

advise: build/python ## What the drop-in library gains for a model of yours: make advise MODEL=folder [BATCH=2]
	$(call needs_gpu,measure)
	$(call needs,MODEL,which: make advise MODEL=folder of a 4-bit checkpoint)
	@scripts/build verify
	@$(run) $(TORCH) -m reprolab_nf4 advise $${BATCH:+--batch="$$BATCH"} -- "$$MODEL"

tune: build/python ## Measure which way of multiplying by 4-bit weights is the fastest here, for the drop-in: make tune [MODEL=folder]
	$(call needs_gpu,measure)
	@scripts/build verify
	@$(run) $(TORCH) -m reprolab_nf4 tune $${MODEL:+--model="$$MODEL"} --output="$$RESULTS/products.json"

peer: build/python ## Fetch another bitsandbytes to compare with: make peer VERSION=0.47.0
	@scripts/peer

# Rendering never measures.
render: build/python ## Render your own results again
	@scripts/python -m plots render "--results=$$RESULTS" "--output=$$RESULTS" $${VERBOSE:+--verbose}

render-recorded: build/python ## Render the recorded runs, under a banner that says whose they are
	@scripts/python -m plots render --recorded "--results=$$RECORDED" "--output=$$RESULTS" $${VERBOSE:+--verbose}

report: build/python ## Write one HTML page of your results for colleagues (RESULTS=data/recorded/h200: of the recorded ones)
	@scripts/python -m plots report "--results=$$RESULTS"

# The default folder may be missing before the first run; one that the user names may not.
claims: build/python ## Decide every published claim from all that was recorded or measured here
	@scripts/python -m plots claims --results=data/recorded "--output=$$RESULTS/claims" \
	  $(if $(filter-out results,$(RESULTS))$(wildcard results),"--results=$$RESULTS")

paper: build/python ## Write the recorded runs up in LaTeX, as PDF too where pdflatex is installed: build/paper/
	@scripts/python -m plots paper --output build/paper

compare: build/python ## Compare two runs' times: make compare A=results B=data/recorded/h200 [THRESHOLD=1]
	$(call needs,A B,which: make compare A=results B=data/recorded/h200 (or commit:path))
	@scripts/python -m plots compare "--a=$$A" "--b=$$B" "--output=$${OUT:-$$RESULTS/compare}" \
	  $${THRESHOLD:+"--threshold=$$THRESHOLD"} $${ALLOW:+"--allow=$$ALLOW"} $${VERBOSE:+--verbose}

record: build/python ## Add your results to the recorded runs, to submit them: make record GPU=a100-sxm4-80gb
	$(call needs,GPU,which: make record GPU=a100-sxm4-80gb [RESULTS=folder])
	@scripts/python -m plots record "--results=$$RESULTS" "--gpu=$$GPU" $${OLDER:+--older}

sass: build/python ## Compile a kernel alone, without a GPU, and show its code; or of two, the difference: make sass KERNEL=name|A=name B=name ARCH=90
	$(if $(KERNEL)$(A)$(B),$(call needs,ARCH,for which architecture: make sass KERNEL=name ARCH=90))
	$(if $(A)$(B),@scripts/python -m sass diff "--a=$$A" "--b=$$B" "--arch=$$ARCH")
	$(if $(KERNEL),@scripts/python -m sass show "--kernel=$$KERNEL" "--arch=$$ARCH" $${FUNCTION:+"--function=$$FUNCTION"})
ifeq ($(KERNEL)$(A)$(B),)
	@scripts/python -m sass facts $${ARCH:+"--arch=$$ARCH"} "--output=$$RESULTS/counters/sass.json"
	@scripts/python -m plots facts "--results=$$RESULTS/counters/sass.json"
endif

mojo: build/python ## Install the Mojo compiler, and compile this project's kernels in Mojo (needs no GPU)
triton: build/python ## Install the Triton compiler, and compile this project's kernels in Triton (needs no GPU)
mojo triton:
	@"$$(cat build/python)" -m compile $@ "--arch=$$ARCH" --check # before gigabytes are installed
	@scripts/pinned $@ compile/$@.txt build/languages/$@
	@build/languages/$@/bin/python -m compile $@ "--arch=$$ARCH"

dropin: ## Build our kernels as a library for bitsandbytes (docs/drop-in.md; needs no GPU)
	@scripts/dropin

wheel: build/python ## Build the same as a package for pip, in dist/
	@scripts/wheel

lock: build/python ## Resolve the Python packages again, after a change to what is pinned (needs a network)
	@scripts/lock

check: build/python ## Check formatting, generated tables, commands and paths; list recorded rows of older kernels
	@failed=(); check() { "$${@:2}" || failed+=("$$1"); }; \
	check formatting scripts/check_format.sh; \
	check 'generated pages' scripts/python -m plots document --check; \
	check documents scripts/python -m pytest -q tests/scripts/test_documents.py; \
	check 'recorded code' scripts/python -m sass recorded; \
	[ -z "$$failed" ] || { printf -v all '%s, ' "$${failed[@]}"; echo "failed: $${all%, }" >&2; exit 1; }

format: build/python ## Format the C++ and Python files
	@scripts/check_format.sh --fix

clean: ## Remove builds (results and wheels stay)
	@for folder in build/*/; do [ ! -d "$$folder" ] || flock --nonblock "$$folder" true || { \
	  echo "clean: another make uses $$folder" >&2; exit 2; }; done
	@rm -rf build
