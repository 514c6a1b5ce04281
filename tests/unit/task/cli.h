// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/input_file.h"
#include "renaissance.h"
#include "support/temp_folder.h"

namespace tr {

struct Outcome {
  int code = -1;
  std::string out, err;
};

class Cli : public testing::Test {
 protected:
  /// Runs `renaissance arguments` in the shell.
  Outcome run(const std::string& arguments, const std::string& environment = "") {
    const std::string command = environment + " " + TR_COMMAND + " " + arguments + " >" +
                                folder_.path("out") + " 2>" + folder_.path("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder_.path("out")),
            read_text(folder_.path("err"))};
  }
  const test::TempFolder folder_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void write_idx(const std::string& path, std::uint32_t magic,
                      const std::vector<std::int64_t>& dims, const std::string& payload) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&](std::uint32_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) file.put(char(word >> shift));
  };
  put(magic);
  for (const std::int64_t dim : dims) put(std::uint32_t(dim));
  file << payload;
}

/// Digits of the program's own in MNIST's files.
inline void write_mnist_files(const std::string& folder) {
  const auto write_split = [&](const char* split, const char* prefix, std::int64_t n) {
    const auto digits = make_procedural_digits(split, n);
    std::string images(std::size_t(n) * 784, '\0'), labels;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int32_t label = 0;
      std::byte* out[] = {reinterpret_cast<std::byte*>(images.data() + i * 784),
                          reinterpret_cast<std::byte*>(&label)};
      digits->read(i, out);
      labels.push_back(char(label));
    }
    write_idx(folder + "/" + prefix + "-images-idx3-ubyte", 0x803, {n, 28, 28}, images);
    write_idx(folder + "/" + prefix + "-labels-idx1-ubyte", 0x801, {n}, labels);
  };
  write_split("train", "train", 2000);
  write_split("val", "t10k", 450);
}

}  // namespace tr
