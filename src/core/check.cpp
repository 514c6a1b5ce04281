// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"

#include "core/format.h"

namespace tr::detail {

void assertion_failed(const char* expression, std::source_location where) {
  throw_as<InternalError>(
      "{}: internal assertion \"{}\" does not hold (in {}); this is a fault of the library",
      Where(where), expression, where.function_name());
}

}  // namespace tr::detail
