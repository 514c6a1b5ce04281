// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "data/formats/scan_marks.h"

namespace tr::data {

/// A table of Huffman codes as a DHT segment holds it.
struct HuffmanSpec {
  std::array<std::uint8_t, 17> counts{};  // of codes by length, 1..16
  std::array<std::uint8_t, 256> symbols{};
  bool operator==(const HuffmanSpec&) const = default;
};

/// Codes with the bits that follow them, looked up together: two coefficients of a picture take
/// little more than one load.
class HuffmanTable {
 public:
  enum class Kind : std::uint8_t { DC, AC };
  static constexpr int kIndexBits = 10;

  /// What the next bits are in a block of which k coefficients are known: two AC symbols where the
  /// index holds both, else one. 8 bytes, so that it is one load.
  struct Pair {
    std::uint8_t length = 0;             // in bits, of all
    std::uint8_t most = 0;               // for a greater k it does not hold: entry() is to be asked
    std::uint8_t first = 0, second = 0;  // the values' places less k; of one symbol both are its
    std::int16_t first_value = 0, second_value = 0;  // of one symbol 0 is the second
  };

  /// False: the codes do not fit their lengths, or a symbol means nothing in a baseline picture.
  bool make(const HuffmanSpec& spec, Kind kind);

  /// What the next bits are (an entry is 4 bytes, see below): value, run, bits of both together.
  std::int32_t entry(std::uint64_t bits) const { return entries_[bits >> (64 - kIndexBits)]; }
  const Pair& pair(std::uint64_t bits) const { return pairs_[bits >> (64 - kIndexBits)]; }
  /// What a code longer than the index announces: as a long entry, kLong aside; kNoCodeRun: there
  /// is no such code.
  std::int32_t find(std::uint64_t bits) const;

  // An entry: value << 16 | run << 8 | length. Run: zero coefficients before the value; kEndRun: no
  // coefficient follows in this block. One with kLong holds the length of the code alone, and in
  // place of the value how many bits tell it; 0: of a code longer than the index, find() knows it.
  static constexpr std::int32_t kLong = 1 << 7;
  static constexpr std::int32_t kEndRun = 128, kNoCodeRun = 64;
  static constexpr std::int32_t kLengthMask = 63;

 private:
  void add_code(Kind kind, std::uint32_t code, int length, std::uint8_t symbol);
  void make_pairs();

  HuffmanSpec spec_;
  Kind kind_ = Kind::DC;
  bool good_ = false;
  std::array<std::int32_t, 1 << kIndexBits> entries_{};
  std::array<Pair, 1 << kIndexBits> pairs_{};                   // of AC codes
  std::array<std::int32_t, 17> first_code_{}, first_symbol_{};  // by length
};

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

/// Entropy decoder of a baseline JPEG scan: coefficients as libjpeg gives them. It takes sound data
/// only; at anything odd it gives up, and what the picture is worth is found out by libjpeg.
/// Source: ITU-T T.81, F.2.2.
class BaselineScan {
 public:
  /// `data` begins with the scan's first byte behind its header and goes to the end of the file.
  /// False: the scan's tables are odd.
  bool begin(std::span<const std::byte> data, const ScanLayout& layout);

  /// Behind begin(): rows whose places `marks` knows are gone to, others are added to it. It must
  /// be of the same bytes, or empty, and outlive the scan.
  void use_marks(ScanMarks& marks);

  /// From now on MCUs of other columns are passed over.
  void keep_columns(std::int64_t first, std::int64_t last) { first_ = first, last_ = last; }

  /// Adds the next MCU's coefficients to blocks of 64 zeros, in row-major order; null: they are
  /// passed over. What is passed over is decoded when a later MCU is wanted, or its row was begun,
  /// unless a mark shows that this was done before. False: the data is odd here; nothing more can
  /// be decoded.
  bool decode_mcu(std::int16_t* const* blocks);

  /// Behind the last MCU: bytes of `data` up to the marker that ends the scan.
  std::size_t position() const { return std::size_t(reader_.at - data_.data()); }
  bool is_done() const { return asked_ == layout_.num_mcus; }

 private:
  /// The next bits of the scan, from the highest on.
  struct Bits {
    std::uint64_t bits = 0;
    const std::byte *at = nullptr, *safe = nullptr;  // up to `safe` eight bytes hold no FF
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
  template <bool kKeep>
  bool decode_blocks(std::int16_t* const* blocks);
  template <bool kKeep>
  bool decode_next(std::int16_t* const* blocks);
  bool reach(std::int64_t mcu);
  bool has_mark(std::int64_t row) const;
  void add_mark();
  void go_to_mark(std::int64_t row);
  bool ends_at_marker();
  bool restart();

  std::span<const std::byte> data_;
  const std::byte *end_ = nullptr, *next_ff_ = nullptr;  // none before next_ff_ from reader_ on
  Bits reader_;
  bool at_marker_ = false;  // reader_ is
  ScanLayout layout_;
  std::array<std::int32_t, ScanLayout::kMostComponents> last_dc_{};
  std::int64_t asked_ = 0, asked_column_ = 0;  // the MCU that decode_mcu() is asked for next
  std::int64_t next_ = 0, column_ = 0;         // the one that reader_ is at: not behind asked_
  std::int64_t first_ = 0, last_ = 0;          // columns that are kept
  std::uint32_t restart_in_ = 0, next_restart_ = 0;
  ScanMarks* marks_ = nullptr;
  std::array<HuffmanTable, ScanLayout::kMostComponents> dc_, ac_;
};

}  // namespace tr::data
