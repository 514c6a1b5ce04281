// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/types.h"

namespace tr {

Where::Where(const std::source_location& at) : line(unsigned(at.line())) {
  const std::string_view path = at.file_name();
  const std::size_t slash = path.find_last_of('/');
  file = std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string Where::str() const { return empty() ? "" : file + ":" + std::to_string(line); }

}  // namespace tr
