// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

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
  static constexpr int kIndexBits = 11;

  /// What the next bits are in a block of which k coefficients are known: two AC symbols where the
  /// index holds both, else one. 8 bytes, so that it is one load.
  struct Pair {
    std::uint8_t length = 0;             // in bits, of all
    std::uint8_t most = 0;               // for a greater k it does not hold
    std::uint8_t first = 0, second = 0;  // the values' places less k; of one symbol both are its
    std::int16_t first_value = 0, second_value = 0;  // of one symbol 0 is the second

    // For no k holds one whose value the index does not reach: `first` is its place, below are the
    // bits of its code and of its value. Without a length it is of a code longer than the index.
    // Of these and of any other that does not hold long_entry() is to be asked.
    bool has_long_value() const { return most == 0 && length != 0; }
    int code_bits() const { return second; }
    int value_bits() const { return first_value; }
    static Pair of_long_value(int run, int code_bits, int value_bits) {
      return {std::uint8_t(code_bits + value_bits), 0, std::uint8_t(run), std::uint8_t(code_bits),
              std::int16_t(value_bits)};
    }
  };

  /// False: the codes do not fit their lengths, or a symbol means nothing in a baseline picture.
  bool make(const HuffmanSpec& spec, Kind kind);

  /// What the next bits are (an entry is 4 bytes, see below): value, run, bits of both together.
  std::int32_t entry(std::uint64_t bits) const { return entries_[bits >> (64 - kIndexBits)]; }
  const Pair& pair(std::uint64_t bits) const { return pairs_[bits >> (64 - kIndexBits)]; }
  /// The next symbol with its value as an entry that has none of kLong, whatever the index holds;
  /// kNoCodeRun: there is no such code.
  std::int32_t long_entry(std::uint64_t bits) const;

  // An entry: value << 16 | run << 8 | length. Run: zero coefficients before the value; kEndRun: no
  // coefficient follows in this block. One with kLong holds the length of the code alone, and in
  // place of the value how many bits tell it; 0: of a code longer than the index.
  static constexpr std::int32_t kLong = 1 << 7;
  static constexpr std::int32_t kEndRun = 128, kNoCodeRun = 64;
  static constexpr std::int32_t kLengthMask = 63;
  static constexpr std::int32_t packed(std::int32_t value, std::int32_t run, std::int32_t length) {
    return std::int32_t(std::uint32_t(value) << 16) | run << 8 | length;
  }
  /// The number that `count` bits stand for: the upper half as it is, the lower half negative.
  static constexpr std::int32_t extended(std::uint32_t bits, int count) {
    return std::int32_t(bits) -
           (std::int32_t((1u << count) - 1) & -std::int32_t(~bits >> (count - 1) & 1));
  }

 private:
  std::int32_t find(std::uint64_t bits) const;
  void add_code(Kind kind, std::uint32_t code, int length, std::uint8_t symbol);
  void make_pairs();

  HuffmanSpec spec_;
  Kind kind_ = Kind::DC;
  bool good_ = false;
  std::array<std::int32_t, 1 << kIndexBits> entries_{};
  std::array<Pair, 1 << kIndexBits> pairs_{};                   // of AC codes
  std::array<std::int32_t, 17> first_code_{}, first_symbol_{};  // by length
};

}  // namespace tr::data
