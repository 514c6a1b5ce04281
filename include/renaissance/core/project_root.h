// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "renaissance/core/export.h"

namespace tr {

/// The folder below which a program's data lies: the environment variable TR_PROJECT_ROOT, else the
/// nearest folder above the executable that holds `.renaissance-root`, or both `README.md` and
/// `include/renaissance.h`, else the working directory. No trailing slash. No path is compiled in.
/// @throws DataError  TR_PROJECT_ROOT names no folder.
TR_API std::string project_root();

}  // namespace tr

#define TR_PROJECT_ROOT ::tr::project_root()
