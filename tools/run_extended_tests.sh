#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make test-extended` runs beyond `make test`: slow tests (accuracy over five seeds among them), TSan,
# the fuzzers, the bundle in a bare root, and, where $RENAISSANCE_SHARED has the tool for it, the demo on a
# newcomer's machine.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
shared=${RENAISSANCE_SHARED:-../shared}
failed=()

stage() { printf '\n== %s (%d min so far)\n' "$1" $((SECONDS / 60)); }
try() { "${@:2}" || failed+=("$1"); }

if [ ! -e build/data/mnist/train-images-idx3-ubyte.gz ] && [ -x "$shared/data/unpack" ]; then
  "$shared/data/unpack" build/data mnist || exit 1
fi
[ -e build/data/mnist/train-images-idx3-ubyte.gz ] || failed+=("accuracy on MNIST: no MNIST in build/data/mnist")

stage "slow tests of the Release build"
cmake --preset release >/dev/null && cmake --build --preset release -j "$jobs" || exit 1
try "slow tests" ctest --test-dir build/release -L slow --output-on-failure --no-tests=error

stage "unit, op and case tests under TSan"
# The build runs the test programs too, to list their tests.
cmake --preset tsan >/dev/null && tools/fixed_layout.sh cmake --build --preset tsan -j "$jobs" || exit 1
try "TSan" env TSAN_OPTIONS=halt_on_error=1 tools/fixed_layout.sh ctest --test-dir build/tsan -L cpu -LE slow \
  -j "$jobs" --output-on-failure

stage "fuzzers"
try "fuzzers" tools/run_fuzzers.sh

stage "bundle in a bare root"
try "bundle" tools/make_bundle.sh
try "bundle in a bare root" tools/test_bundle.sh

if [ -x "$shared/tools/clean-root" ] && [ "$(id -u)" = 0 ]; then
  stage "demo in a fresh root"
  try "demo in a fresh root" "$shared/tools/clean-root" . make demo
fi

stage "done"
[ ${#failed[@]} -eq 0 ] || { printf 'make test-extended: failed: %s\n' "${failed[@]}" >&2; exit 1; }
echo "make test-extended: all passed"
