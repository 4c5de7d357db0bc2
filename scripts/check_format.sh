#!/usr/bin/env bash
# Formatting of C++ (clang-format) and Python (ruff), and that every file has a licence (reuse), by the versions in
# scripts/check.lock. --fix writes; without it, anything unformatted is named and the exit status is 1.
set -euo pipefail
tools=build/check-tools
scripts/pinned check scripts/check.txt "$tools" # versions format differently
mapfile -d '' sources < <(find . \( -path ./build -o -path ./results -o -path './.?*' \) -prune -o \
  \( -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' \) -print0)
if [ "${1:-}" = --fix ]; then
  "$tools/bin/clang-format" -i "${sources[@]}"
  "$tools/bin/ruff" format --quiet .
  exec "$tools/bin/ruff" check --quiet --fix .
fi

failed=
"$tools/bin/clang-format" --dry-run -Werror "${sources[@]}" || failed=yes
"$tools/bin/ruff" format --check --quiet . || failed=yes
[ -z "$failed" ] || echo "format: make format formats the files above" >&2
"$tools/bin/ruff" check --quiet . || failed=yes
if git rev-parse --git-dir >/dev/null 2>&1; then
  "$tools/bin/reuse" lint --quiet || { "$tools/bin/reuse" lint --lines >&2; failed=yes; }
else # it would take what is installed in build/ for ours
  echo "format: licences are not checked: this is not a git checkout" >&2
fi
# The documents' example kernel is C++ too: what a newcomer copies must pass.
example() { awk '/^```$/ { on = 0 } on; /^```cuda$/ { on = 1 }' docs/adding-a-kernel.md; }
diff <(example) <(example | "$tools/bin/clang-format" --assume-filename=x.cu) || {
  echo "format: the example in docs/adding-a-kernel.md is not formatted (above: it, then how it should be)" >&2
  failed=yes
}
[ -z "$failed" ] || exit 1
echo "format: ${#sources[@]} C++ files and the Python files are as they should be"
