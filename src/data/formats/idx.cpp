// SPDX-License-Identifier: Apache-2.0
#include "data/formats/idx.h"

#include <array>
#include <string_view>

#include "core/check.h"
#include "core/input_file.h"
#include "data/formats/byte_source.h"

namespace tr::data {
namespace {

constexpr std::string_view name_of(IdxKind kind) {
  return kind == IdxKind::IMAGES ? "images" : "labels";
}
constexpr std::uint32_t magic_of(IdxKind kind) { return kind == IdxKind::IMAGES ? 0x803 : 0x801; }
constexpr int rank_of(IdxKind kind) { return kind == IdxKind::IMAGES ? 3 : 1; }

std::string_view element_name(std::uint32_t code) {
  switch (code) {
    case 0x09: return "signed byte";
    case 0x0B: return "int16";
    case 0x0C: return "int32";
    case 0x0D: return "float32";
    case 0x0E: return "float64";
    default: return "";
  }
}

/// "0x802 (2050)", as the number is usually written: with all its digits if the first byte is not
/// zero.
std::string magic_text(std::uint32_t magic) {
  return magic < 0x10000 ? fmt::format("{:#x} ({})", magic, magic)
                         : fmt::format("{:#010x} ({})", magic, magic);
}

struct Header {
  std::array<std::uint32_t, 4> words{};  // magic and up to three dimensions
  std::uint64_t count = 0;               // items
  std::uint64_t item_bytes = 1;
};

void check_magic(std::uint32_t magic, IdxKind kind, bool compressed, const std::string& who) {
  if (magic == magic_of(kind)) return;
  const std::uint32_t element = (magic >> 8) & 255u;
  if ((magic >> 16) == 0 && !element_name(element).empty()) {
    throw_as<DataError>("{}: the element type is 0x{:02X} ({}), expected 0x08 (unsigned byte)", who,
                        element, element_name(element));
  }
  const bool idx_like = (magic >> 16) == 0 || (magic & 0xffffu) == 0;
  throw_as<DataError>("{}: magic is {}, expected {} ({} in IDX format){}", who, magic_text(magic),
                      magic_text(magic_of(kind)), name_of(kind),
                      idx_like || compressed ? "" : "; the file is neither IDX nor gzip");
}

Header read_header(ByteSource& source, IdxKind kind, const std::string& who) {
  const std::size_t num_words = std::size_t(1 + rank_of(kind));
  std::array<std::byte, 16> bytes{};
  const std::size_t got = source.read(std::span(bytes).first(4 * num_words));
  Header header;
  for (std::size_t i = 0; i < num_words; ++i) {
    for (std::size_t k = 0; k < 4; ++k) {
      header.words[i] = (header.words[i] << 8) | std::uint32_t(bytes[4 * i + k]);
    }
  }
  if (got >= 4) check_magic(header.words[0], kind, source.compressed(), who);
  if (got < 4 * num_words) {
    throw_as<DataError>("{}: the file has {} bytes, the header of {} alone has {} ({} are missing)",
                        who, got, name_of(kind), 4 * num_words, 4 * num_words - got);
  }
  header.count = header.words[1];
  if (header.count == 0)
    throw_as<DataError>("{}: the header says 0, there are no {}", who, name_of(kind));
  if (kind == IdxKind::IMAGES) header.item_bytes = std::uint64_t(header.words[2]) * header.words[3];
  constexpr std::uint32_t kMaxSide = 65536;  // keeps every product below 2^64
  if (header.item_bytes == 0 || header.words[2] > kMaxSide || header.words[3] > kMaxSide) {
    throw_as<DataError>("{}: the header says images of {}x{}, sides from 1 to {} make sense", who,
                        header.words[2], header.words[3], kMaxSide);
  }
  return header;
}

[[noreturn]] void throw_wrong_size(const std::string& who, IdxKind kind, const Header& header,
                                   std::uint64_t there, bool at_most) {
  throw_as<DataError>(
      "{}: the header says {} {} ({} bytes), the file holds {}{} bytes, enough for {}", who,
      header.count, name_of(kind), header.count * header.item_bytes, at_most ? "at most " : "",
      there, there / header.item_bytes);
}

}  // namespace

Tensor parse_idx(std::span<const std::byte> bytes, IdxKind kind, const std::string& who) {
  const std::unique_ptr<ByteSource> source = open_bytes(bytes, who);
  const Header header = read_header(*source, kind, who);
  const std::uint64_t expected = header.count * header.item_bytes;
  const std::uint64_t possible = source->max_remaining();
  if (possible < expected) throw_wrong_size(who, kind, header, possible, source->compressed());

  const std::int64_t count = std::int64_t(header.count);
  Tensor tensor(
      kind == IdxKind::IMAGES ? Shape{count, header.words[2], header.words[3]} : Shape{count},
      DType::UINT8);
  const std::size_t got = source->read({static_cast<std::byte*>(tensor.raw()), tensor.num_bytes()});
  const std::uint64_t there = got < expected ? got : expected + source->skip_rest();
  if (there != expected) throw_wrong_size(who, kind, header, there, false);
  return tensor;
}

Tensor read_idx(const std::string& path, IdxKind kind) {
  return parse_idx(read_bytes(path), kind, path);
}

}  // namespace tr::data
