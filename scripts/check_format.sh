#!/usr/bin/env bash
# Formatting of C++ (clang-format) and Python (ruff), and that every file has a licence (reuse), by the versions in
# .ci/check.lock. --fix writes; without it, anything unformatted is named and the exit status is 1.
set -euo pipefail
scripts/deps environment .ci/check.lock build/check-tools # versions format differently
PATH=$PWD/build/check-tools/bin:$PATH
mapfile -d '' sources < <(find . \( -path ./build -o -path ./results -o -path './.?*' \) -prune -o \
  \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
if [ "${1:-}" = --fix ]; then
  clang-format -i "${sources[@]}"
  ruff format --quiet .
  exec ruff check --quiet --fix .
fi

failed=
clang-format --dry-run -Werror "${sources[@]}" || failed=yes
ruff format --check --quiet . || failed=yes
[ -z "$failed" ] || echo "format: make format formats the files above" >&2
ruff check --quiet . || failed=yes
[ ! -e .git ] || reuse lint --lines >&2 || failed=yes # in a tarball it would take what is in build/ for ours
# The documents' example kernel is C++ too: what a newcomer copies must pass.
awk '/^```$/ { on = 0 } on; /^```cuda$/ { on = 1 }' docs/adding-a-kernel.md |
  clang-format --dry-run -Werror --assume-filename=docs/adding-a-kernel.cu || failed=yes
[ -z "$failed" ] || exit 1
echo "format: ${#sources[@]} C++ files and the Python files are as they should be"
