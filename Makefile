# All commands of the project; `make help` lists them.
.NOTPARALLEL:

# What a user may give, as make's arguments; of the environment only CUDA_VISIBLE_DEVICES counts. Recipes read the values
# from their environment, so that no shell parses them, except the list PEER.
KNOWN := FILE EXPERIMENT FAMILY KERNEL PROBLEM PEER METRICS CLOCKS DRY_RUN ARCH FUNCTION PRESET RESULTS RECORDED \
  MODEL BATCHES KERNELS TOKENS GENERATIONS GPU QUICK RESUME VERBOSE VERSION A B THRESHOLD ALLOW OUT OLDER \
  SET SECTION LAUNCHES CUDA_VISIBLE_DEVICES
$(foreach name,$(filter-out CUDA_VISIBLE_DEVICES,$(KNOWN)),\
  $(if $(findstring environment,$(origin $(name))),$(eval undefine $(name))))
GIVEN := $(foreach name,$(KNOWN),$(if $(filter-out undefined,$(origin $(name))),$(name)))
export $(GIVEN)
UNKNOWN := $(filter-out $(KNOWN),$(foreach name,$(.VARIABLES),$(if $(findstring command,$(origin $(name))),$(name))))
$(if $(UNKNOWN),$(error $(firstword $(UNKNOWN)): no such variable (make help lists them)))
$(foreach flag,DRY_RUN QUICK RESUME VERBOSE,$(eval override $(flag) := $$(filter-out 0 no off false,$$($(flag)))))
$(if $(and $(DRY_RUN),$(filter-out help bench profile verify reproduce-%,$(or $(MAKECMDGOALS),help))),\
  $(error DRY_RUN: only bench, profile, verify and reproduce-... support it))
$(if $(and $(PROBLEM)$(QUICK),$(filter bench,$(MAKECMDGOALS))),\
  $(error bench: takes no PROBLEM and no QUICK; KERNEL and FAMILY select))
export override RESULTS := $(or $(RESULTS),results)
export override RECORDED := $(or $(RECORDED),data/recorded/h200)
IN_RECORDED := $(findstring $(CURDIR)/data/recorded/,$(realpath $(RESULTS))/ $(abspath $(RESULTS))/ $(abspath $(OUT))/)
$(if $(and $(IN_RECORDED),$(filter-out help report,$(MAKECMDGOALS))),\
  $(error RESULTS, OUT: recorded runs (data/recorded/) stay as they are; name another folder))

# The GPU half is built where there is a GPU and a compiler for it; PRESET=... decides otherwise.
PRESETS := cpu gpu all-archs asan
HIDDEN_GPU := $(if $(filter CUDA_VISIBLE_DEVICES,$(GIVEN)),$(if $(filter-out -1,$(CUDA_VISIBLE_DEVICES)),,yes))
export HAS_GPU := $(if $(HIDDEN_GPU),,$(if $(wildcard /dev/nvidia[0-9]* /dev/dxg),yes))
CUDA_BIN := $(patsubst %/nvcc,%,$(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc)))
export override PRESET := $(or $(PRESET),$(if $(and $(HAS_GPU),$(CUDA_BIN)),gpu,cpu))
$(if $(filter $(PRESETS),$(PRESET)),,$(error PRESET: give one of $(PRESETS)))
export BIN := build/$(PRESET)/bin
# Empty where nothing can be measured.
export MEASURE := $(filter-out cpu asan,$(PRESET))
export NO_GPU_WHY := $(if $(HAS_GPU),PRESET=$(PRESET) has no GPU half (nvcc: $(or $(CUDA_BIN),none)),no GPU is visible)
export CUDA_DEVICE_ORDER := PCI_BUS_ID
# Python's settings of others, such as a cluster's modules, would hide our packages. Without compiled modules each process
# would compile all that it imports, which takes 10 s for PyTorch.
unexport CDPATH BASH_ENV PYTHONHOME PYTHONPATH PYTHONSAFEPATH PYTHONDONTWRITEBYTECODE MAKEFLAGS MFLAGS MAKEOVERRIDES
export PATH := $(if $(CUDA_BIN),$(CUDA_BIN):)$(PATH)

# First lines of recipes that need a GPU or a variable.
needs_gpu = @[ -n "$$MEASURE" ] || { echo "$@: nothing to $1: $(NO_GPU_WHY)" >&2; exit 2; }
needs = @$(foreach name,$1,[ -n "$$$(name)" ] &&) true || { echo "$@: give $(subst $() $(), and ,$1): $2" >&2; exit 2; }
CTEST = ctest --test-dir "build/$$PRESET" -j$$(nproc) --output-on-failure --progress
# No worker waits for the longest file.
PYTEST = scripts/python -m pytest -q -n $$(nproc) --dist worksteal
TORCH = "$$(cat build/end_to_end/python)"
# Builds a program, and begins the command that runs it; a dry run builds nothing.
program = @[ -n "$$DRY_RUN" ] || scripts/build $1 || exit 2; \
  [ -x "$$BIN/$1" ] || { echo "$@: shows its plan after make build$${FAMILY:+ FAMILY=$$FAMILY}" >&2; exit 2; }; "$$BIN/$1"
PEERS = $(foreach peer,$(PEER),--peer="$(peer)") $${DRY_RUN:+--dry-run}

# A folder with an experiment.toml is an experiment: docs/adding-a-kernel.md.
REPRODUCE := $(patsubst experiments/%/experiment.toml,reproduce-%,$(wildcard experiments/*/experiment.toml))
.PHONY: $(REPRODUCE) $(shell sed -n 's/^\([a-z0-9_-]*\):.*##.*/\1/p' Makefile)

help: ## List the targets
	@awk 'FNR == 1 {split(FILENAME, path, "/"); sub(/^# */, ""); printf "  %-20s %s\n", "reproduce-" path[2], $$0}' \
	  $(wildcard experiments/*/README.md) /dev/null
	@awk -F':.*## ' '/^[a-z0-9_-]+:.*## /{printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@sed -n 's/^#= \?/  /p' $(MAKEFILE_LIST)
#=
#= variables: PRESET=cpu|gpu|all-archs|asan  ARCH=90  PEER=path/to/libbitsandbytes_cuda*.so  DRY_RUN=1
#=            CLOCKS=1410|max  METRICS=sm__warps_launched.sum  VERBOSE=1  RESULTS=folder (of all targets that
#=            write results)  CUDA_VISIBLE_DEVICES=1 (the GPU, of all that run kernels)
#= of reproduce-... and bench: RESUME=1 (omits what an interrupted run of the same command has measured)
#= of build, list, describe and bench: FAMILY=reduction
#= of reproduce-end_to_end, -table1 and -figure4: QUICK=1  MODEL=name or folder  BATCHES=2,8  KERNELS=shared_lut,global_lut
#=            TOKENS=32  GENERATIONS=9
#= of profile: SET=basic (of Nsight Compute's sections; default: full)  SECTION=SourceCounters,...  LAUNCHES=4  PROBLEM=28672x8192
#= of sass: FUNCTION=text (part of a function's name; of one function, its instructions are shown)
#= of render-recorded, and without a GPU of reproduce-...: RECORDED=data/recorded/h100 (what they show)
#= of compare: THRESHOLD=1 (percent; fails if B is slower by more)  ALLOW=undecided,lost  OUT=folder
#= of record: OLDER=1 (replaces newer recorded results)

deps: ## Find what is needed, install what is missing (root) or name it
	@scripts/deps environment requirements.lock .venv
	@scripts/build
	@echo "deps: all found"

.venv/installed: requirements.lock
	@scripts/deps environment requirements.lock .venv

# Names the Python that has PyTorch and bitsandbytes.
build/end_to_end/python: experiments/end_to_end/end_to_end.lock
	@scripts/deps torch

build: ## Configure and build everything this machine can; of one family: make build FAMILY=reduction
	@scripts/build $${FAMILY:+bench_}$${FAMILY:-all}

# One family alone builds in minutes.
BENCH = bench$${FAMILY:+_$$FAMILY}
FAMILIES := $(patsubst kernels/%/problem.hpp,%,$(wildcard kernels/*/problem.hpp))
$(if $(filter-out $(FAMILIES),$(FAMILY)),$(error FAMILY: give one of $(FAMILIES)))
test: $(if $(KERNEL),,build) .venv/installed ## Run every test that this machine can; of one kernel: make test KERNEL=name
ifneq ($(KERNEL),)
	@[ -n "$$MEASURE" ] || { echo "test: KERNEL: needs nvcc: add PRESET=gpu ARCH=90, or another architecture" >&2; exit 2; }
	@file=$$(ls kernels/*/"$$KERNEL".* 2>/dev/null || grep -lsF "\"$$KERNEL\"" kernels/*/*.cu) || \
	  { echo "test: KERNEL: kernels/ has no kernel of that name (make list)" >&2; exit 2; }; \
	  family=$$(basename "$$(dirname "$${file%%[[:space:]]*}")"); \
	  scripts/build "$${family}_every_kernel_test" $$([ ! -d "tests/kernels/$$family" ] || echo "$${family}_kernels_test")
	@$(CTEST) --no-tests=error -R "/$$KERNEL\$$"
else
	@$(CTEST) -L "cpu|cuda" # writes the result file that a Python test reads
	@[ -n "$$MEASURE" ] || $(PYTEST)
	@[ -z "$$MEASURE" ] || { $(PYTEST) >build/pytest.log 2>&1 & $(CTEST) -LE "cpu|cuda|alone"; status=$$?; \
	  wait $$! || status=1; cat build/pytest.log; exit $$status; } # beside tests that wait for the GPU
	@[ -z "$$MEASURE" ] || $(CTEST) -L alone # no other process may have the GPU
endif
	@[ -n "$$HAS_GPU" ] && [ -n "$$MEASURE" ] || echo "GPU TESTS SKIPPED: $$NO_GPU_WHY. Nothing above ran on a GPU."

# Their matrices are so small that a second thread only waits.
test-end_to_end: build/end_to_end/python $(if $(MEASURE),dropin) ## The tests that need torch and bitsandbytes (5 GB)
	@scripts/build verify
	@OMP_NUM_THREADS=1 $(TORCH) -m pytest -q \
	  --ignore-glob="*/test_runs.py" --ignore-glob="*/test_product.py" experiments/end_to_end experiments/product experiments/puzzle reprolab_nf4/tests # others need no PyTorch

test-sanitized: ## The tests of the CPU half under AddressSanitizer
	@PRESET=asan scripts/build all
	@PRESET=asan; $(CTEST)

verify: .venv/installed ## Compare every dequantized weight of a checkpoint with the CPU reference: make verify FILE=<file or folder> [KERNEL=...] [PEER=...]
	$(call needs,FILE,make verify FILE=model.safetensors (or its folder))
	$(call program,verify) $${KERNEL:+"--kernel=$$KERNEL"} $(PEERS) -- "$$FILE"

list: .venv/installed ## List the kernels
	@if [ -n "$$MEASURE" ]; then scripts/build $(BENCH) && "$$BIN/$(BENCH)" --list; \
	else scripts/python -m plots list; fi

describe: .venv/installed ## Write the description of families and kernels to data/families.json (needs nvcc, no GPU)
	@[ -n "$$MEASURE" ] || { echo "describe: needs what nvcc compiles: make describe PRESET=gpu ARCH=90" >&2; exit 2; }
	@scripts/build $(BENCH) $(if $(FAMILY),,latency puzzle)
	@scripts/python -W ignore::RuntimeWarning:runpy -m reprolab.families $(addprefix "$$BIN"/,$(BENCH) $(if $(FAMILY),,latency puzzle))

bench: .venv/installed ## Measure kernels alone: make bench KERNEL=name; without KERNEL all of them, and those of PEER
	$(call needs_gpu,measure)
	$(call program,$(BENCH)) $${KERNEL:+"--kernel=$$KERNEL"} $(PEERS) $${CLOCKS:+"--clocks=$$CLOCKS"} \
	  $${METRICS:+--instrument counters "--metrics=$$METRICS"} --output "$$RESULTS/bench$${METRICS:+_counters}.json" $${RESUME:+--resume}; status=$$?; \
	  case $$status$$DRY_RUN in [013]) scripts/python -m plots bench --results "$$RESULTS/bench$${METRICS:+_counters}.json" || exit;; esac; \
	  exit $$status # right rows are shown beside wrong ones

profile: .venv/installed ## Nsight Compute on one kernel: make profile EXPERIMENT=table2 KERNEL=name [PROBLEM=28672x8192]
	$(if $(DRY_RUN),,$(call needs_gpu,profile))
	$(call needs,EXPERIMENT KERNEL,make profile EXPERIMENT=table2 KERNEL=shared_lut)
	@[ -n "$$DRY_RUN" ] || scripts/build bench
	@scripts/python -m ncu "--programs=$$BIN" "--results=$$RESULTS/profile" \
	  "--experiment=$$EXPERIMENT" "--kernel=$$KERNEL" $${PROBLEM:+"--problem=$$PROBLEM"} $${SET:+"--set=$$SET"} \
	  $${SECTION:+"--section=$$SECTION"} $${LAUNCHES:+"--launches=$$LAUNCHES"} $${DRY_RUN:+--dry-run}

$(REPRODUCE): reproduce-%: .venv/installed
	@scripts/python -m experiments reproduce $*

# One measurement feeds both; with RESUME=1 the second only shows what the first has measured.
reproduce-table1: reproduce-end_to_end ## Table I of arXiv 2604.02556: dequantization's share of generating text
reproduce-figure4: reproduce-end_to_end ## Figure 4 of arXiv 2604.02556: latency and throughput

ifneq ($(MEASURE),)
# Has a pass that needs PyTorch, which is left out where there is none.
WITH_TORCH := $(if $(wildcard build/end_to_end/python),reproduce-product)
$(if $(DRY_RUN),,reproduce-end_to_end $(WITH_TORCH)) tune: build/end_to_end/python dropin
endif

tune: .venv/installed ## Time the backends of 4-bit matmuls on this GPU and write the table of the drop-in: make tune [MODEL=folder]
	$(call needs_gpu,measure)
	@scripts/build verify
	@$(TORCH) -m reprolab_nf4 tune $${MODEL:+--model="$$MODEL"} --output="$$RESULTS/products.json"

render: .venv/installed ## Render your own results again
	@scripts/python -m plots render "--results=$$RESULTS" "--output=$$RESULTS" $${VERBOSE:+--verbose}

render-recorded: .venv/installed ## Render the recorded runs, under a banner that says whose they are
	@scripts/python -m plots render --recorded "--results=$$RECORDED" "--output=$$RESULTS" $${VERBOSE:+--verbose}

report: .venv/installed ## Write one HTML page of your results for colleagues (RESULTS=data/recorded/h200: of the recorded ones)
	@scripts/python -m plots report "--results=$$RESULTS"

# The default folder may be missing before the first run; one that the user names may not.
claims: .venv/installed ## Decide every published claim from all that was recorded or measured here
	@scripts/python -m plots claims --results=data/recorded "--output=$$RESULTS/claims" \
	  $(if $(filter-out results,$(RESULTS))$(wildcard results),"--results=$$RESULTS")

compare: .venv/installed ## Compare two runs' times: make compare A=results B=data/recorded/h200 [THRESHOLD=1]
	$(call needs,A B,make compare A=results B=data/recorded/h200)
	@scripts/python -m reprolab.compare "--a=$$A" "--b=$$B" "--output=$${OUT:-$$RESULTS/compare}" \
	  $${THRESHOLD:+"--threshold=$$THRESHOLD"} $${ALLOW:+"--allow=$$ALLOW"}

record: .venv/installed ## Add your results to the recorded runs, to submit them: make record GPU=a100-sxm4-80gb
	$(call needs,GPU,make record GPU=a100-sxm4-80gb [RESULTS=folder])
	@scripts/python -m reprolab.record "--results=$$RESULTS" "--gpu=$$GPU" $${OLDER:+--older}

sass: .venv/installed ## Compile a kernel, without a GPU, and show its registers and opcodes; or compare two: make sass KERNEL=name|A=name B=name ARCH=90
	$(call needs,$(if $(A)$(B),A B,KERNEL) ARCH,make sass KERNEL=name ARCH=90 (or A=name B=name))
	@if [ -n "$$A" ]; then set -- diff "--a=$$A" "--b=$$B"; else set -- show "--kernel=$$KERNEL"; fi; \
	  scripts/python -m sass "$$@" "--arch=$$ARCH" $${FUNCTION:+"--function=$$FUNCTION"}

mojo: .venv/installed ## Install the Mojo compiler, and compile this project's kernels in Mojo (needs no GPU)
triton: .venv/installed ## Install the Triton compiler, and compile this project's kernels in Triton (needs no GPU)
mojo triton:
	@scripts/deps environment profiling/compile/$@.lock build/languages/$@
	@PYTHONPATH=.:profiling build/languages/$@/bin/python -m compile $@ "--arch=$$ARCH"

dropin: ## Build our kernels as a library for bitsandbytes (docs/drop-in.md; needs no GPU)
wheel: .venv/installed ## Build the drop-in as a package for pip, in dist/
peer: .venv/installed ## Fetch another bitsandbytes to compare with: make peer VERSION=0.47.0
dropin wheel peer:
	@scripts/$@

LOCKS := requirements.lock experiments/end_to_end/end_to_end.lock profiling/compile/mojo.lock profiling/compile/triton.lock \
  .ci/check.lock .ci/reframe.lock
lock: ## Resolve the Python packages again, after a change to what pyproject.toml pins (needs a network)
	@scripts/deps environment .ci/check.lock build/check-tools
	@for lock in $(LOCKS); do build/check-tools/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock" \
	  --group "pyproject.toml:$$(basename "$$lock" .lock)" -o "$$lock" || exit 2; done

pages: .venv/installed ## Write README and other pages from their templates (FILE.md.j2) and the recorded runs
	@scripts/python -m plots pages

CHECKS := "scripts/check_format.sh" "scripts/python -m plots pages --check" "scripts/python -m sass recorded" \
  "scripts/python -m pytest -q tests/scripts/test_documents.py"
check: .venv/installed ## Check formatting, generated tables, commands and paths; list recorded rows of older kernels
	@failed=0; for command in $(CHECKS); do $$command || { failed=1; echo "failed: $$command" >&2; }; done; exit $$failed

format: ## Format the C++ and Python files
	@scripts/check_format.sh --fix

clean: ## Remove builds (results and wheels stay)
	@rm -rf build
