// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/library.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "core/check.h"
#include "core/env.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> split_at_colons(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(':'), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// Folders python3* below `folder`, newest name first.
std::vector<fs::path> python_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("python3")) found.push_back(entry.path());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

/// Prefixes of the first python3 in PATH: of the name itself (an environment) and of the program
/// that it stands for.
void add_python_of_path(std::vector<fs::path>& prefixes) {
  for (const std::string& folder : split_at_colons(read_env("PATH").value_or(""))) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code error;
    if (!fs::exists(python, error)) continue;
    prefixes.push_back(fs::path(folder).parent_path());
    const fs::path program = fs::canonical(python, error);
    if (!error) prefixes.push_back(program.parent_path().parent_path());
    return;
  }
}

/// The folders in which NVIDIA's Python packages keep libraries, below each prefix where Python may
/// live. Python itself is not run.
std::vector<std::string> python_library_folders() {
  std::vector<fs::path> prefixes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const auto prefix = read_env(variable)) prefixes.emplace_back(*prefix);
  }
  add_python_of_path(prefixes);
  if (const auto home = read_env("HOME")) prefixes.emplace_back(fs::path(*home) / ".local");
  prefixes.emplace_back("/usr/local");
  prefixes.emplace_back("/usr");
  std::vector<std::string> folders;
  for (const fs::path& prefix : prefixes) {
    for (const fs::path& python : python_folders(prefix / "lib")) {
      for (const char* packages : {"site-packages", "dist-packages"}) {
        for (const char* inner : {"nvidia/cu13/lib", "nvidia/cublas/lib", "nvidia/cudnn/lib",
                                  "nvidia/nccl/lib", "nvidia/cuda_nvrtc/lib"}) {
          const fs::path folder = python / packages / inner;
          std::error_code error;
          const bool known =
              std::find(folders.begin(), folders.end(), folder.string()) != folders.end();
          if (!known && fs::is_directory(folder, error)) folders.push_back(folder.string());
        }
      }
    }
  }
  return folders;
}

std::string path_of(void* handle, const std::string& file) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name == nullptr) return file;
  return map->l_name;
}

}  // namespace

std::vector<std::string> library_folders() {
  std::vector<std::string> folders;
  if (const auto given = read_env("RENAISSANCE_LIBRARY_PATH")) folders = split_at_colons(*given);
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back((executable.parent_path().parent_path() / "lib").string());
  folders.emplace_back();
  if (const auto home = read_env("CUDA_HOME")) folders.push_back(*home + "/lib64");
  folders.emplace_back("/usr/local/cuda/lib64");
  for (std::string& folder : python_library_folders()) folders.push_back(std::move(folder));
  return folders;
}

Library Library::load(const LibraryWanted& wanted) {
  std::string places, last_error;
  for (const std::string& folder : library_folders()) {
    for (const std::string& file : wanted.files) {
      const std::string path = folder.empty() ? file : folder + "/" + file;
      std::error_code error;
      if (!folder.empty() && !fs::exists(path, error)) continue;
      if (void* handle = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
        Library library;
        library.name_ = wanted.name;
        library.path_ = path_of(handle, path);
        library.handle_ = handle;
        return library;
      }
      // The loader's words on a file that is not there say no more than the list of places.
      if (!folder.empty()) last_error = fmt::format("; {}", dlerror());
    }
    places += (places.empty() ? "" : ", ") + (folder.empty() ? "the system's loader" : folder);
  }
  throw_as<Unsupported>(
      "{}: {} was not found; looked at: {}{}. Install it ({}), or name its folder "
      "in RENAISSANCE_LIBRARY_PATH",
      wanted.name, fmt::join(wanted.files, " or "), places, last_error, wanted.install);
}

void* Library::address_of(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (address == nullptr) {
    throw_as<Unsupported>("{}: {} has no function {}; a newer one is needed", name_, path_, symbol);
  }
  return address;
}

}  // namespace tr::cuda
