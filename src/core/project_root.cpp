// SPDX-License-Identifier: Apache-2.0
#include "core/project_root.h"

#include <filesystem>
#include <system_error>

#include "core/check.h"
#include "core/env.h"

namespace tr {
namespace {

namespace fs = std::filesystem;

bool is_root(const fs::path& folder) {
  std::error_code ignored;  // an unreadable folder holds no marker for us
  return fs::exists(folder / ".renaissance-root", ignored) ||
         (fs::exists(folder / "README.md", ignored) &&
          fs::exists(folder / "include/renaissance.h", ignored));
}

}  // namespace

std::string project_root_above(const std::string& executable) {
  for (fs::path folder = fs::path(executable).parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    if (is_root(folder)) return folder.string();
    if (folder == folder.root_path()) break;
  }
  return "";
}

std::string project_root() {
  std::error_code error;
  if (const auto folder = read_env("TR_PROJECT_ROOT")) {
    if (!fs::is_directory(*folder, error)) {
      throw_as<DataError>("environment variable TR_PROJECT_ROOT is \"{}\", which is not a folder",
                          *folder);
    }
    const std::size_t last = folder->find_last_not_of('/');
    return last == std::string::npos ? "/" : folder->substr(0, last + 1);
  }
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (const std::string root = project_root_above(executable.string()); !root.empty()) return root;
  const fs::path here = fs::current_path(error);
  if (error) throw_as<DataError>("the working directory cannot be read: {}", error.message());
  return here.string();
}

}  // namespace tr
