#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the build lacks on Debian 12 or Ubuntu 24.04. A machine that has everything runs no apt-get.
#   deps.sh          what `make build` and `make test` need
#   deps.sh fuzz     clang 16 and its run-time library as well
#   deps.sh lint     clang-tidy 16 as well
set -euo pipefail

missing=()

# has_header HEADER: can the compiler (or, before there is one, a look into /usr/include) find it?
has_header() {
  if command -v c++ >/dev/null; then
    echo "#include <$1>" | c++ -E -x c++ - >/dev/null 2>&1
  else
    [ -e "/usr/include/$1" ]
  fi
}
need_program() { command -v "$1" >/dev/null || missing+=("$2"); }
need_header() { has_header "$1" || missing+=("$2"); }

need_program c++ g++
need_program cmake cmake
need_program ninja ninja-build
need_program python3 python3  # the source checkers among the tests
need_header dnnl.hpp libdnnl-dev
need_header fmt/format.h libfmt-dev
need_header CLI/CLI.hpp libcli11-dev
need_header nlohmann/json.hpp nlohmann-json3-dev
need_header toml++/toml.h libtomlplusplus-dev
need_header zlib.h zlib1g-dev
need_header jpeglib.h libjpeg-dev
need_header png.h libpng-dev
need_header curl/curl.h libcurl4-openssl-dev
need_header gtest/gtest.h libgtest-dev
for set in "$@"; do
  case $set in
    fuzz)
      need_program clang++-16 clang-16
      ls /usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.fuzzer-x86_64.a >/dev/null 2>&1 ||
        missing+=(libclang-rt-16-dev) ;;
    lint) need_program clang-tidy-16 clang-tidy-16 ;;
    *) echo "deps: no such set: $set (fuzz, lint)" >&2; exit 2 ;;
  esac
done

[ ${#missing[@]} -gt 0 ] || exit 0

install="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "deps: missing here: ${missing[*]} (names of Debian packages)." >&2
  echo "deps: there is no apt-get; install them with your system's package manager, then run make again." >&2
  exit 1
fi
if [ "$(id -u)" = 0 ]; then
  as_root=()
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root=(sudo)
else
  echo "deps: some packages are missing and this user may not install them. Run this, then make again:" >&2
  echo "  sudo sh -c 'apt-get update && $install'" >&2
  exit 1
fi
echo "deps: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive $install -qq >/dev/null
