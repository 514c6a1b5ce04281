// SPDX-License-Identifier: Apache-2.0
#include "data/formats/tar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "data/formats/byte_source.h"

namespace tr::data {
namespace {

constexpr std::size_t kBlock = 512;
using Block = std::array<std::byte, kBlock>;

std::string_view text_at(const Block& block, std::size_t at, std::size_t length) {
  const std::string_view all(reinterpret_cast<const char*>(block.data()) + at, length);
  return all.substr(0, std::min(all.find('\0'), length));
}

/// An octal number with spaces about it.
std::optional<std::uint64_t> octal_at(const Block& block, std::size_t at, std::size_t length) {
  std::uint64_t value = 0;
  bool any = false;
  for (const char c : text_at(block, at, length)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + std::uint64_t(c - '0');
    any = true;
  }
  return any ? std::optional(value) : std::nullopt;
}

/// Sum of the header's bytes with those of the checksum taken as spaces.
std::uint64_t checksum_of(const Block& block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? std::uint64_t(' ') : std::uint64_t(block[i]);
  }
  return sum;
}

}  // namespace

void for_each_tar_file(std::span<const std::byte> bytes, const std::string& who,
                       const std::function<void(const TarFile&)>& visit) {
  const std::unique_ptr<ByteSource> source = open_bytes(bytes, who);
  const auto take = [&](std::span<std::byte> out) {
    if (source->read(out) != out.size()) throw_as<DataError>("{}: the archive is cut", who);
  };
  std::vector<std::byte> content;
  for (;;) {
    Block header{};
    take(header);
    if (std::all_of(header.begin(), header.end(), [](std::byte b) { return b == std::byte{0}; })) {
      return;
    }
    const auto size = octal_at(header, 124, 12);
    if (octal_at(header, 148, 8) != checksum_of(header) || !size) {
      throw_as<DataError>("{}: is no tar archive, or damaged: a header has a wrong checksum", who);
    }
    if (*size > source->max_remaining()) throw_as<DataError>("{}: the archive is cut", who);
    content.resize(std::size_t(*size + kBlock - 1) / kBlock * kBlock);
    take(content);
    const auto kind = char(header[156]);
    if (kind != '0' && kind != '\0') continue;
    const std::string_view folder = text_at(header, 345, 155);
    std::string name(text_at(header, 0, 100));
    if (!folder.empty()) name = std::string(folder) + "/" + name;
    visit({std::move(name), std::span(content).first(std::size_t(*size))});
  }
}

}  // namespace tr::data
