#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs COMMAND without address randomisation: the sanitizers of gcc 12 and clang 16 do not know the layouts that
# newer kernels choose from. Where it cannot be turned off, as in some containers, COMMAND runs as it is.
#   fixed_layout.sh COMMAND...
if setarch -R true 2>/dev/null; then exec setarch -R "$@"; fi
exec "$@"
