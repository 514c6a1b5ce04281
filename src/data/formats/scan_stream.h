// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "data/formats/jpeg_huffman.h"
#include "data/formats/scan_marks.h"

namespace tr::data {

/// What the MCUs of a baseline scan consist of.
struct ScanLayout {
  static constexpr int kMostBlocks = 10, kMostComponents = 4;
  int num_blocks = 0;                                 // of an MCU
  std::array<std::uint8_t, kMostBlocks> component{};  // of each block
  std::array<HuffmanSpec, kMostComponents> dc{}, ac{};
  int num_components = 0;
  std::uint32_t restart_interval = 0;  // MCUs; 0: none
  std::int64_t num_mcus = 0, mcus_per_row = 0;
};

/// A baseline scan's data, and its codes.
class ScanSource {
 public:
  /// `bytes` begins with the scan's first byte behind its header and goes to the end of the file.
  /// False: the scan's tables are odd.
  bool begin(std::span<const std::byte> bytes, const ScanLayout& layout);

  const std::byte* data() const { return bytes_.data(); }
  const std::byte* end() const { return bytes_.data() + bytes_.size(); }
  std::size_t num_bytes() const { return bytes_.size(); }
  const ScanLayout& layout() const { return layout_; }
  /// What block b of each MCU is read by.
  struct Block {
    std::size_t component = 0;
    const HuffmanTable *dc = nullptr, *ac = nullptr;
  };
  const Block& block(int b) const { return blocks_[std::size_t(b)]; }

 private:
  using Tables = std::array<HuffmanTable, ScanLayout::kMostComponents>;
  using Places = std::array<std::uint8_t, ScanLayout::kMostComponents>;

  std::span<const std::byte> bytes_;
  ScanLayout layout_;
  Tables dc_, ac_;
  std::array<Block, ScanLayout::kMostBlocks> blocks_;
};

/// A place in a scan from which MCUs are decoded one after the other: coefficients as libjpeg gives
/// them. It takes sound data only. Source: ITU-T T.81, F.2.2.
class ScanStream {
 public:
  ScanStream() = default;
  /// At the scan's first MCU. The source must outlive it.
  explicit ScanStream(const ScanSource& source);

  /// To where mark i of `marks` lies, MCU `mcu`.
  void go_to(const ScanMarks& marks, std::size_t i, std::int64_t mcu);
  /// Makes mark i, of the MCU that it is at. False: it cannot be written down.
  bool mark(ScanMarks& marks, std::size_t i) const;

  std::int64_t mcu() const { return mcu_; }  // the next one
  std::int64_t column() const { return column_; }
  const std::byte* position() const { return reader_.at; }

  /// Adds the next MCU's coefficients to blocks of 64 zeros, in row-major order; null: they are
  /// passed over. False: the data is odd here; nothing more can be decoded.
  bool decode(std::int16_t* const* blocks);
  /// The same of two streams of a scan, null for both or for none: either's look-ups wait for each
  /// other, not for those of the other stream.
  struct Both {
    bool first = false, second = false;
  };
  static Both decode_both(ScanStream& first, std::int16_t* const* first_blocks, ScanStream& second,
                          std::int16_t* const* second_blocks);
  /// Nothing but the rest of a byte lies before the next marker.
  bool ends_at_marker();

 private:
  /// The next bits of the scan, from the highest on.
  struct Bits {
    std::uint64_t bits = 0;
    const std::byte *at = nullptr,
                    *safe = nullptr;  // up to `safe` eight bytes hold no FF; null: nowhere
    int count = 0;  // of bits that are there; below 0: more were used than there are

    void drop(int length) {
      bits <<= length;
      count -= length;
    }
    std::int32_t take_entry(const HuffmanTable& table);
    template <bool kKeep>
    std::size_t take_pair(const HuffmanTable& ac, std::size_t k, std::int16_t* block);
  };

  void start_bits(const std::byte* from);
  void refill(Bits& reader);
  void refill_bytes();
  bool restart_if_due();
  bool restart();
  void go_on();
  template <bool kKeep>
  bool begin_block(Bits& reader, const ScanSource::Block& source, std::int16_t* block);
  template <bool kKeep>
  std::size_t end_block(Bits& reader, const HuffmanTable& ac, std::size_t k, std::int16_t* block);
  template <bool kKeep>
  bool decode_blocks(std::int16_t* const* blocks);
  template <bool kKeep>
  static Both decode_both_blocks(ScanStream& first, std::int16_t* const* first_blocks,
                                 ScanStream& second, std::int16_t* const* second_blocks);

  const ScanSource* source_ = nullptr;
  const std::byte* next_ff_ = nullptr;  // none before it from reader_ on
  Bits reader_;
  bool at_marker_ = false;  // reader_ is
  std::array<std::int32_t, ScanLayout::kMostComponents> last_dc_{};
  std::int64_t mcu_ = 0, column_ = 0;
  std::uint32_t restart_in_ = 0, next_restart_ = 0;
};

}  // namespace tr::data
