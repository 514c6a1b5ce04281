// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance/core/export.h"

/// Version of these headers.
#define TR_VERSION_MAJOR 0
#define TR_VERSION_MINOR 1
#define TR_VERSION_PATCH 0
#define TR_VERSION "0.1.0"

namespace tr {

/// Version of the library that a program runs with: TR_VERSION where headers and library are of one
/// installation.
TR_API const char* library_version();

}  // namespace tr
