// SPDX-License-Identifier: Apache-2.0
#include "support/golden.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace tr::test {
namespace fs = std::filesystem;

std::string golden_folder() { return std::string(TR_TESTS_FOLDER) + "/correction/goldens"; }

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

SafetensorsFile golden(const std::string& name) {
  return load_safetensors(golden_folder() + "/" + name + ".safetensors");
}

std::vector<std::string> cases_of(const SafetensorsFile& file) {
  std::set<std::string> cases;
  for (const NamedTensor& entry : file.tensors) {
    cases.insert(entry.name.substr(0, entry.name.rfind('.')));
  }
  return {cases.begin(), cases.end()};
}

}  // namespace tr::test
