#!/usr/bin/env bash
# Finds what the build, the tests and the plots need. What is missing is installed through the
# system's package manager when root, saying what, or else named in one command to copy.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
need_command() { command -v "$1" >/dev/null || missing+=("$2"); }
need_command make make
need_command git git
need_command g++ g++
need_command cmake cmake
need_command python3 python3

# Libraries are asked for as the build asks for them, so that one installed anywhere counts.
if command -v cmake >/dev/null && command -v g++ >/dev/null; then
  probe=$(mktemp -d)
  trap 'rm -rf "$probe"' EXIT
  if ! cmake -S scripts/probe -B "$probe" >"$probe/log" 2>&1; then
    tail -n 5 "$probe/log" >&2
    echo "deps: CMake cannot configure anything here (above); CMake 3.24 or newer is needed" >&2
    exit 2
  fi
  while read -r package; do
    missing+=("$package")
  done < <(sed -n 's/^-- missing: //p' "$probe/log")
else
  missing+=(libeigen3-dev libbenchmark-dev libgtest-dev nlohmann-json3-dev libcli11-dev libfmt-dev)
fi

# The plots' Python: a virtual environment of the project's own, unless the system's has it all.
has_plots() {
  "$1" -c 'import sys, fastjsonschema, matplotlib, numpy, pytest; sys.exit(sys.version_info < (3, 11))' \
    >/dev/null 2>&1
}
venv=no
if has_plots .venv/bin/python; then
  python=.venv/bin/python
elif has_plots python3; then
  python=python3
else
  venv=yes
  python=.venv/bin/python
  python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3-venv)
fi

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "deps: missing (names are Debian's): ${missing[*]}; install them and run this again" >&2
    exit 2
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "deps: missing packages; run this, then the same make command again:" >&2
    echo "sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
    exit 2
  fi
  echo "deps: installing ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi

if [ "$venv" = yes ]; then
  echo "deps: making .venv with the versions in requirements.txt"
  python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
fi
mkdir -p build
echo "$python" >build/python
echo "deps: all found"
