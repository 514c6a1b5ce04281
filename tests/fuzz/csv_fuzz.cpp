// SPDX-License-Identifier: Apache-2.0
// Any text is either a list of samples, which written again is read as the same one, or a
// DataError; the same of a list of truth.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/formats/csv.h"
#include "data/picture_layouts.h"
#include "renaissance/core/error.h"

namespace {

void list_of_samples(std::string_view text) {
  std::string written = "path,label\n";
  const std::vector<tr::data::CsvRow> rows = tr::data::parse_csv(text, "input");
  for (const tr::data::CsvRow& row : rows) {
    if (row.path.empty() || row.label.empty() || row.line < 1) std::abort();
    written += tr::data::csv_field(row.path) + "," + tr::data::csv_field(row.label) + "\n";
  }
  const std::vector<tr::data::CsvRow> again = tr::data::parse_csv(written, "written");
  if (again.size() != rows.size()) std::abort();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (again[i].path != rows[i].path || again[i].label != rows[i].label) std::abort();
  }
}

void list_of_truth(std::string_view text) {
  for (const tr::data::TruthRow& row : tr::data::parse_truth(text, "input")) {
    if (row.label.empty() || row.line < 1) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto& parse : {list_of_samples, list_of_truth}) {
    try {
      parse(text);
    } catch (const tr::DataError&) {
      continue;  // refused, as it should be
    }
  }
  return 0;
}
