// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tr::cuda {

/// A shared library that is needed only when something asks for it.
struct LibraryWanted {
  std::string name;                // "cuBLASLt"
  std::vector<std::string> files;  // "libcublasLt.so.13", the best first
  std::string install;             // what brings it: "pip install nvidia-cublas"
};

/// A loaded library. It stays until the process ends: code of it may run in other threads then.
class Library {
 public:
  /// Takes the first of the files that loads, place by place in the order of library_folders(); the
  /// system's loader is asked after the bundle's folder.
  /// @throws Unsupported  none does; names the library, every place looked at, what to install.
  static Library load(const LibraryWanted& wanted);

  const std::string& path() const { return path_; }
  /// Sets `function` to the symbol of that name. @throws Unsupported  the library lacks it.
  template <typename F>
  void resolve(const char* symbol, F& function) const {
    function = reinterpret_cast<F>(address_of(symbol));
  }

 private:
  void* address_of(const char* symbol) const;

  std::string name_;
  std::string path_;
  void* handle_ = nullptr;
};

/// Places of libraries, in the order in which they are tried; "" stands for the system's loader.
/// The folders of Python's packages are those that exist.
std::vector<std::string> library_folders();

}  // namespace tr::cuda
