#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every bench_* program of the Release build; JSON goes to build/bench. BENCH_PYTHON: a Python with PyTorch for the peers.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench
peer=()
if [ -n "${BENCH_PYTHON:-}" ]; then
  peer=(--python "$BENCH_PYTHON")
else
  echo "bench: no peers are run; give a Python that has PyTorch with BENCH_PYTHON=..."
fi
for program in build/release/bin/bench_*; do
  name=$(basename "$program")
  printf '\n== %s\n' "$name"
  "$program" "${peer[@]}" --json "build/bench/$name.json"
done
