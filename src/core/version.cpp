// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/version.h"

namespace tr {

const char* library_version() { return TR_VERSION; }

}  // namespace tr
