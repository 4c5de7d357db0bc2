#!/usr/bin/env bash
# Formatting of C++ (clang-format) and Python (ruff), by the versions in requirements.txt.
# --fix writes; without it, anything unformatted is named and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

# In an environment of its own: versions format differently, and a system's may be any.
tools=build/format-tools
if [ ! -x "$tools/bin/ruff" ] || [ ! -x "$tools/bin/clang-format" ]; then
  mkdir -p build
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check \
    $(grep -E '^(ruff|clang-format)==' requirements.txt)
fi

# README's example kernel is C++ too: what a newcomer copies must pass.
readme_example() { awk '/^```$/ { on = 0 } on; /^```cuda$/ { on = 1 }' README.md; }

sources=$(git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.cu' '*.cuh')
if [ "${1:-}" = --fix ]; then
  "$tools/bin/clang-format" -i $sources
  "$tools/bin/ruff" format --quiet plots tests scripts
  "$tools/bin/ruff" check --quiet --fix plots tests scripts
else
  "$tools/bin/clang-format" --dry-run -Werror $sources
  if ! diff <(readme_example) <(readme_example | "$tools/bin/clang-format" --assume-filename=x.cu); then
    echo "format: the example in README.md is not formatted (above: README, then how it should be)" >&2
    exit 1
  fi
  "$tools/bin/ruff" format --check --quiet plots tests scripts
  "$tools/bin/ruff" check --quiet plots tests scripts
  echo "format: $(wc -w <<<"$sources") C++ files and the Python files are as they should be"
fi
