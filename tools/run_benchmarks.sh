#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every bench_* program of the Release build; JSON goes to build/bench. BENCH_PYTHON: a Python with PyTorch for the peers
# of those that have one. A program that fails, as those of the GPU do where there is none, is named at the end.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench
peer=()
if [ -n "${BENCH_PYTHON:-}" ]; then
  peer=(--python "$BENCH_PYTHON")
else
  echo "bench: no peers are run; give a Python that has PyTorch with BENCH_PYTHON=..."
fi
failed=()
for program in build/release/bin/bench_*; do
  name=$(basename "$program")
  printf '\n== %s\n' "$name"
  options=(--json "build/bench/$name.json")
  if [[ $("$program" --help) == *--python* ]]; then options+=("${peer[@]}"); fi
  "$program" "${options[@]}" || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { printf '\nbench: failed: %s\n' "${failed[*]}" >&2; exit 1; }
