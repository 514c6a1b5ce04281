#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the libFuzzer targets with clang 16 under ASan and UBSan and runs each for FUZZ_SECONDS seconds, from the seeds in
# tests/fuzz/seeds/NAME. What they find stays in build/fuzz/corpus/NAME; a crash stops with the file that made it.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/deps.sh fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz -j "${JOBS:-$(nproc)}"

ran=0
for program in build/fuzz/bin/*_fuzz; do
  name=$(basename "$program" _fuzz)
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus" build/fuzz/crashes
  seeds=()
  [ ! -d "tests/fuzz/seeds/$name" ] || seeds=("tests/fuzz/seeds/$name")
  printf '\n== fuzz %s for %s s\n' "$name" "${FUZZ_SECONDS:-60}"
  tools/fixed_layout.sh "$program" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -verbosity=0 -close_fd_mask=3 -artifact_prefix=build/fuzz/crashes/ "$corpus" "${seeds[@]}" ||
    { echo "fuzz: $name failed; the input lies in build/fuzz/crashes" >&2; exit 1; }
  echo "fuzz: $name found nothing; $(ls "$corpus" | wc -l) inputs in its corpus"
  ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "fuzz: no target was built" >&2; exit 1; }
