#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make test` runs: the Release build and its tests, then unit and case tests under ASan and UBSan. The last lines are
# CTest's own summary of the Release tests; a failure of any part ends with a line that names it and exit status 1.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
shared=${RENAISSANCE_SHARED:-../shared}  # real data and hostile files, where there are any

stage() { printf '\n== %s (%d min %02d s so far)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
stop() { printf '\nmake test: %s\n' "$1" >&2; exit 1; }

# Real MNIST, CIFAR-10 and photos are used where they lie in build/data or can be unpacked from $shared.
for set in mnist cifar10 imagenet-sample; do
  if [ ! -e "build/data/$set" ] && [ -x "$shared/data/unpack" ]; then
    "$shared/data/unpack" build/data "$set" || stop "$set could not be unpacked from $shared"
  fi
done
have=()
[ ! -e build/data/imagenet-sample ] || have+=(--have photos)
[ ! -e build/data/cifar10 ] || have+=(--have cifar10)
if [ -e build/data/mnist/train-images-idx3-ubyte.gz ]; then
  have+=(--have mnist)
else
  echo "No MNIST in build/data/mnist: the tests that need it skip, the others use procedural digits."
fi

# run_ctest PRESET: build, test, and refuse a skip whose reason does not hold here
run_ctest() {
  local build=build/$1 layout=(env)
  [ "$1" != asan ] || layout=(tools/fixed_layout.sh)  # the build runs test programs too, to list their tests
  stage "$1: build"
  cmake --preset "$1" >/dev/null || stop "cmake --preset $1 failed"
  "${layout[@]}" cmake --build --preset "$1" -j "$jobs" || stop "the $1 build failed"
  stage "$1: tests"
  "${layout[@]}" ctest --test-dir "$build" -L cpu -LE slow -j "$jobs" --output-on-failure \
    --output-junit junit.xml 2>&1 |
    tee "$build/ctest.log" | grep -vE '^ +Start +[0-9]+:|^ *[0-9]+/[0-9]+ Test .* Passed '
  grep -q '^100% tests passed' "$build/ctest.log" || stop "tests of the $1 build failed; see $build/ctest.log"
  python3 tools/check_skips.py "$build/junit.xml" "${have[@]}" || stop "a test of the $1 build skipped without need"
}

[ ! -d "$shared/cases" ] || have+=(--have cases)
! command -v pkg-config >/dev/null || have+=(--have pkg-config)
! command -v dpkg-shlibdeps >/dev/null || have+=(--have dpkg-dev)
[ "$(nproc)" -lt 2 ] || have+=(--have processors)
! grep -qw avx512f /proc/cpuinfo || have+=(--have avx512)
! grep -qw avx512_bf16 /proc/cpuinfo || have+=(--have bf16)
! grep -qw amx_bf16 /proc/cpuinfo || have+=(--have amx)
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
  echo "The Release build has the CUDA backend. Tests labelled gpu are built and skipped here: make test-gpu runs them."
else
  echo "There is no nvcc, so the Release build is for the CPU; the tests labelled gpu are skipped with it."
fi
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
run_ctest asan
run_ctest release

stage "all passed"
sed -n '/^100% tests passed/,$p' build/asan/ctest.log | sed '1s/^100% tests passed/under ASan and UBSan: passed/'
sed -n '/^100% tests passed/,$p' build/release/ctest.log
