// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "support/compare.h"
#include "support/golden.h"

namespace tr::test {
namespace {

TEST(GoldenFiles, AreSmallAndNameTheScriptAndTheVersionThatMadeThem) {
  const std::vector<std::string> names = golden_names();
  EXPECT_GE(names.size(), 60u);
  std::uintmax_t total = 0;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto bytes = std::filesystem::file_size(golden_folder() + "/" + name + ".safetensors");
    total += bytes;
    EXPECT_LT(bytes, 100u * 1024);
    const SafetensorsFile file = golden(name);
    ASSERT_TRUE(file.metadata.contains("script") && file.metadata.contains("torch") &&
                file.metadata.contains("seed"));
    EXPECT_EQ(file.metadata.at("script"), "tests/correction/make_goldens.py");
    EXPECT_TRUE(has_words(file.metadata.at("torch"), {"2."}));
    EXPECT_FALSE(file.tensors.empty());
  }
  EXPECT_LT(total, 5u << 20);
}

}  // namespace
}  // namespace tr::test
