#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-gpu` runs: the Release build with the CUDA backend and the tests labelled gpu. Fails without nvcc, without
# a GPU, and if a test skips although there is one.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
build=build/release

stop() { printf '\nmake test-gpu: %s\n' "$1" >&2; exit 1; }

# AUTO as in every other target: a refusal must not stay behind in the build folder.
cmake --preset release -DTR_CUDA=AUTO >/dev/null || stop "cmake --preset release failed"
grep -q '^CMAKE_CUDA_COMPILER:' "$build/CMakeCache.txt" ||
  stop "there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda, so there is no CUDA backend to test"
cmake --build --preset release -j "$jobs" || stop "the build failed"
no_gpu=$("$build/bin/renaissance" info --json - | python3 -c 'import json, sys; print(json.load(sys.stdin)["cuda"]["no_gpu"])') ||
  stop "renaissance info failed"
[ -z "$no_gpu" ] || stop "no GPU: $no_gpu"
"$build/bin/renaissance" info
# One after the other: tests that measure memory or fill it would disturb each other.
ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error --output-junit junit-gpu.xml || stop "tests failed"
python3 tools/check_skips.py "$build/junit-gpu.xml" --have cuda || stop "a test skipped without need"
