#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the bundle in a root that holds only it and the files of glibc itself: no shell, no /proc, no other library. Needs root.
#   test_bundle.sh [BUNDLE]     default: the one in dist/
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=${1:-$(ls -d dist/renaissance-*-linux-x86_64 | tail -1)}
[ "$(id -u)" = 0 ] || { echo "test_bundle: chroot needs root" >&2; exit 1; }

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
loader=$(ldd /bin/true | sed -n 's/^\s*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p')
libc_folder=$(dirname "$(readlink -f "$(ldd /bin/true | awk '$1 == "libc.so.6" { print $3 }')")")
mkdir -p "$root$(dirname "$loader")" "$root/lib/x86_64-linux-gnu" "$root/opt" "$root/tmp" "$root/dev"
cp -L "$loader" "$root$loader"
for name in libc.so.6 libm.so.6 libmvec.so.1 libdl.so.2 librt.so.1 libpthread.so.0 libresolv.so.2; do
  cp -L "$libc_folder/$name" "$root/lib/x86_64-linux-gnu/"
done
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 444 "$root/dev/urandom" c 1 9
cp -R "$bundle" "$root/opt/moved"

# in_root WORDS COMMAND...: runs in the bare root and looks for WORDS in what it prints
in_root() {
  local words=$1
  shift
  echo "-- $*"
  if ! env -i HOME=/tmp "$(command -v chroot)" "$root" "$@" >"$root/tmp/out" 2>&1; then
    cat "$root/tmp/out"
    echo "test_bundle: $* failed" >&2
    exit 1
  fi
  grep -q -- "$words" "$root/tmp/out" || { cat "$root/tmp/out"; echo "test_bundle: no '$words' in it" >&2; exit 1; }
}
in_root "cpu" /opt/moved/bin/renaissance info
in_root "transient" /opt/moved/bin/renaissance plan vgg16bn --batch 256 --dtype fp16 --device cuda
in_root "procedural" /opt/moved/bin/renaissance train mnist-mlp --epochs 1 --checkpoint /tmp/checkpoint
for program in "$root"/opt/moved/bin/*_test; do
  [ -e "$program" ] || continue  # a bundle without test programs
  in_root "^[A-Za-z]" "/opt/moved/bin/$(basename "$program")" --gtest_list_tests
done
echo "test_bundle: the bundle runs in a bare root"
