#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes dist/renaissance-VERSION-linux-x86_64 from the Release build: programs, the shared libraries that they need beyond
# glibc, recipes and licences. Programs look for libraries in ../lib of their own folder, so the folder can be moved; what
# stands in bin/ is a launcher (tools/bundle_launcher.cpp) that makes this work without /proc too.
# TESTS=1 takes the test programs along.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(renaissance VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
bin=build/release/bin
out=dist/renaissance-$version-linux-x86_64
rm -rf "$out"
mkdir -p "$out/bin" "$out/programs" "$out/lib" "$out/LICENSES"
launcher=build/release/bundle_launcher
c++ -std=c++20 -Os -static -s -o "$launcher" tools/bundle_launcher.cpp

for program in "$bin"/*; do
  [ -f "$program" ] && [ -x "$program" ] || continue
  case $(basename "$program") in
    *_test) [ "${TESTS:-}" = 1 ] || continue ;;
    article_*) continue ;;  # the texts of others
  esac
  strip -o "$out/programs/$(basename "$program")" "$program"
  cp "$launcher" "$out/bin/$(basename "$program")"
done

# What belongs to glibc stays out: it must fit the kernel and the loader of the machine that runs the bundle.
glibc='^(linux-vdso|ld-linux-x86-64|libc|libm|libmvec|libdl|librt|libpthread|libresolv|libutil|libanl|libnss_[a-z]*)\.so'
for program in "$out"/programs/*; do ldd "$program"; done | awk '$2 == "=>" { print $1, $3 }' | sort -u |
  while read -r name path; do
    if [[ $name =~ $glibc ]]; then continue; fi
    [ -e "$path" ] || { echo "bundle: $name is not on this machine" >&2; exit 1; }
    cp -L "$path" "$out/lib/$name"
    strip --strip-unneeded "$out/lib/$name"
    package=$( (dpkg -S "$(readlink -f "$path")" 2>/dev/null || dpkg -S "${path#/usr}" 2>/dev/null ||
                dpkg -S "*$(basename "$(readlink -f "$path")")" 2>/dev/null || true) | head -1 | cut -d: -f1)
    if [ -n "$package" ] && [ -e "/usr/share/doc/$package/copyright" ]; then
      cp "/usr/share/doc/$package/copyright" "$out/LICENSES/$package.txt"
    else
      echo "bundle: no licence text found for $name" >&2
      exit 1
    fi
  done
cp LICENSE "$out/LICENSES/renaissance.txt"
touch "$out/.renaissance-root"  # programs look for data/ in the folder that holds it

# A recipe is built into the command; its file is the shortest way to start it. Others are read by the command.
mkdir -p "$out/recipes"
cp recipes/*.toml "$out/recipes/"
for recipe in $(sed -n '/return {{"/,/}};/p' src/zoo/recipes.cpp | sed -n 's/.*{"\([a-z0-9-]*\)", ".*/\1/p'); do
  printf '#!/bin/sh\nexec "$(dirname "$0")/../bin/renaissance" train %s "$@"\n' "$recipe" >"$out/recipes/$recipe"
  chmod +x "$out/recipes/$recipe"
done
echo "bundle: $out, $(du -sm "$out" | cut -f1) MiB, $(ls "$out/bin" | wc -l) programs, $(ls "$out/lib" | wc -l) libraries"
