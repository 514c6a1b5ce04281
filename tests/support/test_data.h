// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace tr::test {

/// Folder of a real data set ("mnist"), or "" where it is not: below RENAISSANCE_TEST_DATA, which
/// CTest sets, else below the nearest build/data above the working directory. A test that needs it
/// skips with a message that names the set; `make test` refuses that skip where the set lies in
/// build/data.
inline std::string real_data_folder(const std::string& name) {
  namespace fs = std::filesystem;
  if (const char* root = std::getenv("RENAISSANCE_TEST_DATA"); root != nullptr) {
    return fs::is_directory(fs::path(root) / name) ? (fs::path(root) / name).string() : "";
  }
  for (fs::path at = fs::current_path(); at.has_relative_path(); at = at.parent_path()) {
    if (fs::is_directory(at / "build/data" / name)) return (at / "build/data" / name).string();
  }
  return "";
}

}  // namespace tr::test
