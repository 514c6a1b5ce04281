// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg_huffman.h"

#include <algorithm>

namespace tr::data {
namespace {

/// Zeros before the value that an AC symbol announces: 16 are a run of 15 and a value of zero.
constexpr std::int32_t run_of(std::uint8_t symbol) {
  const std::int32_t run = symbol >> 4, size = symbol & 15;
  return size == 0 && run != 15 ? HuffmanTable::kEndRun : run;
}

}  // namespace

void HuffmanTable::add_code(Kind kind, std::uint32_t code, int length, std::uint8_t symbol) {
  const int rest = kIndexBits - length, size = symbol & 15;
  const std::int32_t run = kind == Kind::AC ? run_of(symbol) : 0;
  std::int32_t* entries = entries_.data() + (code << rest);
  if (size == 0 || size > rest) {
    std::fill_n(entries, 1 << rest,
                size == 0 ? packed(0, run, length) : packed(size, run, kLong | length));
    return;
  }
  const int each = 1 << (rest - size);  // entries of a value
  for (std::uint32_t value = 0; value < 1u << size; ++value, entries += each) {
    std::fill_n(entries, each, packed(extended(value, size), run, length + size));
  }
}

bool HuffmanTable::make(const HuffmanSpec& spec, Kind kind) {
  if (good_ && kind == kind_ && spec == spec_) return true;  // as in the last picture
  spec_ = spec;
  kind_ = kind;
  good_ = false;
  entries_.fill(kLong);
  std::uint32_t code = 0;
  std::size_t next = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    first_code_[std::size_t(length)] = std::int32_t(code);
    first_symbol_[std::size_t(length)] = std::int32_t(next);
    for (int i = 0; i < spec.counts[std::size_t(length)]; ++i, ++code, ++next) {
      if (next >= spec.symbols.size() || code >= 1u << length) return false;
      const std::uint8_t symbol = spec.symbols[next];
      if (kind == Kind::DC ? symbol > 11 : (symbol & 15) > 10) return false;
      if (length <= kIndexBits) add_code(kind, code, length, symbol);
    }
  }
  if (kind == Kind::AC) make_pairs();
  good_ = true;
  return true;
}

void HuffmanTable::make_pairs() {
  constexpr int kSize = 1 << kIndexBits;
  for (int i = 0, count = 1; i < kSize; i += count) {
    const std::int32_t one = entries_[std::size_t(i)];
    const int length = one & kLengthMask, run = one >> 8 & 255;
    const auto place = std::uint8_t(run);
    Pair* const pairs = pairs_.data() + i;
    if (one & kLong) {
      const int size = one >> 16;
      pairs[0] = size == 0 ? Pair{} : Pair::of_long_value(run, length, size);
      count = 1;
      continue;
    }
    // All entries with these bits in front, by what follows them.
    count = kSize >> length;
    const Pair alone{std::uint8_t(length), 63, place, place, std::int16_t(one >> 16)};
    for (int j = 0; j < count; ++j) {
      pairs[j] = alone;
      const std::int32_t two = entries_[std::size_t(j << length)];
      const int both = length + (two & kLengthMask);
      if (run == kEndRun || (two & kLong) != 0 || both > kIndexBits) continue;
      pairs[j].length = std::uint8_t(both);
      pairs[j].most = std::uint8_t(62 - run);
      pairs[j].second = std::uint8_t(run + 1 + (two >> 8 & 255));
      pairs[j].second_value = std::int16_t(two >> 16);
    }
  }
}

/// A code longer than the index, as an entry that has kLong.
std::int32_t HuffmanTable::find(std::uint64_t bits) const {
  for (int length = kIndexBits + 1; length <= 16; ++length) {
    const std::int32_t code = std::int32_t(bits >> (64 - length));
    const std::int32_t i = code - first_code_[std::size_t(length)];
    if (i >= 0 && i < spec_.counts[std::size_t(length)]) {
      const std::int32_t at = first_symbol_[std::size_t(length)] + i;
      const std::uint8_t symbol = spec_.symbols[std::size_t(at)];
      return packed(symbol & 15, kind_ == Kind::AC ? run_of(symbol) : 0, length);
    }
  }
  return packed(0, kNoCodeRun, 16);
}

std::int32_t HuffmanTable::long_entry(std::uint64_t bits) const {
  const std::int32_t known = entry(bits);
  if ((known & kLong) == 0) return known;
  const std::int32_t code = known >> 16 != 0 ? known : find(bits);
  const int length = code & kLengthMask, run = code >> 8 & 255, size = code >> 16;
  if (size == 0) return packed(0, run, length);
  const auto value = std::uint32_t(bits << length >> (64 - size));
  return packed(extended(value, size), run, length + size);
}

}  // namespace tr::data
