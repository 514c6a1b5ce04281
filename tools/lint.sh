#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The source checkers on the whole tree; clang-tidy 16, where installed, on the .cpp files that differ from BASE.
set -uo pipefail
cd "$(dirname "$0")/.."
status=0
for checker in includes sizes duplicates docs; do
  python3 "tools/check_$checker.py" || status=1
done

if ! command -v clang-tidy-16 >/dev/null; then
  echo "lint: no clang-tidy-16 (tools/deps.sh lint installs it), so only the checkers above ran"
  exit $status
fi
mapfile -t changed < <({ git diff --name-only --diff-filter=d "${BASE:-HEAD~1}" -- 'src/*.cpp' 'tools/*.cpp'
                         git ls-files --others --exclude-standard -- 'src/*.cpp' 'tools/*.cpp'; } | sort -u)
if [ ${#changed[@]} -gt 0 ]; then
  cmake --preset release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null || exit 1
  # The commands are g++'s; clang does not know all of its warnings.
  clang-tidy-16 --quiet --extra-arg=-Wno-unknown-warning-option -p build/release "${changed[@]}" || status=1
fi
exit $status
