// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tr::data {

/// A line of a list of samples.
struct CsvRow {
  std::int64_t line = 0;  // 1-based
  std::string path, label;
};

/// Rows "path,label" as RFC 4180 writes them: a field may stand in double quotes, then it may hold
/// commas, line breaks and doubled quotes. A byte order mark, CR before LF, empty lines and a first
/// line "path,label" are passed over; fields after the second are ignored. `who` (the path of the
/// list) opens every message.
/// @throws DataError  no row, one field only, an empty path or label, a quote that does not end or
///         stands inside an unquoted field, a NUL: with the line.
std::vector<CsvRow> parse_csv(std::string_view text, const std::string& who);

/// `field` as parse_csv() reads it back.
std::string csv_field(std::string_view field);

}  // namespace tr::data
