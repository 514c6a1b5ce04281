// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "renaissance/core/project_root.h"

namespace tr {

/// The nearest folder above an executable (an absolute path) that holds the marker of
/// project_root(); "" if there is none.
std::string project_root_above(const std::string& executable);

}  // namespace tr
