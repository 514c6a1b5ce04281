// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "renaissance/core/export.h"

namespace tr {

/// Folder that a program's data and results lie under: the environment's TR_PROJECT_ROOT, else the nearest
/// folder above the executable that holds the marker file ".renaissance", else the working directory. Found
/// anew at each call; nothing is compiled in.
TR_API std::string project_root();

}  // namespace tr

#define TR_PROJECT_ROOT (::tr::project_root())
