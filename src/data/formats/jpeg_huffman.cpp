// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg_huffman.h"

namespace tr::data {
namespace {

/// Places of coefficients in a block, in the order of the scan; behind the last one, where a run
/// too long or the end of a block leads, nothing but zeros is ever stored in sound data.
struct ScanOrder {
  std::uint8_t place[256];

  constexpr ScanOrder() : place() {
    int k = 0;
    for (int diagonal = 0; diagonal < 15; ++diagonal) {
      for (int i = 0; i <= diagonal; ++i) {
        const int y = diagonal % 2 == 0 ? diagonal - i : i, x = diagonal - y;
        if (y < 8 && x < 8) place[k++] = std::uint8_t(8 * y + x);
      }
    }
    while (k < 256) place[k++] = 63;
  }
};
constexpr ScanOrder kOrder;

/// The number that `count` bits stand for: the upper half as it is, the lower half negative.
constexpr std::int32_t extended(std::uint32_t bits, int count) {
  return std::int32_t(bits) -
         (std::int32_t((1u << count) - 1) & -std::int32_t(~bits >> (count - 1) & 1));
}

constexpr std::int32_t packed(std::int32_t value, std::int32_t run, std::int32_t length) {
  return std::int32_t(std::uint32_t(value) << 16) | run << 8 | length;
}

/// Zeros before the value that an AC symbol announces: 16 are a run of 15 and a value of zero.
constexpr std::int32_t run_of(std::uint8_t symbol) {
  const std::int32_t run = symbol >> 4, size = symbol & 15;
  return size == 0 && run != 15 ? HuffmanTable::kEndRun : run;
}

std::uint64_t load_big_endian(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

}  // namespace

void HuffmanTable::add_code(Kind kind, std::uint32_t code, int length, std::uint8_t symbol) {
  const int rest = kIndexBits - length, size = symbol & 15;
  const std::int32_t run = kind == Kind::AC ? run_of(symbol) : 0;
  for (std::uint32_t i = 0; i < 1u << rest; ++i) {
    std::int32_t& entry = entries_[code << rest | i];
    if (size == 0) {
      entry = packed(0, run, length);
    } else if (size <= rest) {
      entry = packed(extended(i >> (rest - size), size), run, length + size);
    } else {
      entry = packed(size, run, kLong | length);
    }
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
  good_ = true;
  return true;
}

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

bool BaselineScan::begin(std::span<const std::byte> data, const ScanLayout& layout) {
  data_ = data;
  reader_.start(data.data(), data.data() + data.size());
  layout_ = layout;
  last_dc_ = {};
  mcus_left_ = layout.num_mcus;
  restart_in_ = layout.restart_interval;
  next_restart_ = 0;
  for (std::size_t c = 0; c < std::size_t(layout.num_components); ++c) {
    if (!dc_[c].make(layout.dc[c], HuffmanTable::Kind::DC) ||
        !ac_[c].make(layout.ac[c], HuffmanTable::Kind::AC)) {
      return false;
    }
  }
  return true;
}

void BaselineScan::BitReader::start(const std::byte* from, const std::byte* to) {
  *this = {.at = from, .end = to, .safe = from - 1};
}

/// At least 56 bits: enough for two symbols with their values. Fewer only near the end of the scan.
/// Bits that are loaded but not counted yet are loaded again, the same, the next time.
inline void BaselineScan::BitReader::refill() {
  if (at > safe) [[unlikely]] {
    *this = refilled(*this);
    return;
  }
  bits |= load_big_endian(at) >> count;
  at += (63 - count) >> 3;
  count |= 56;
}

/// Byte by byte: FF 00 is a byte FF, FF and anything else a marker. By value, so that a reader in
/// use stays in registers.
[[gnu::noinline]] BaselineScan::BitReader BaselineScan::BitReader::refilled(BitReader r) {
  while (r.count < 56 && !r.at_marker && r.at < r.end) {
    const auto byte = std::uint64_t(*r.at);
    if (byte == 0xff) {
      r.at_marker = r.end - r.at < 2 || r.at[1] != std::byte{0};
      if (r.at_marker) return r;
      ++r.at;
    }
    ++r.at;
    r.bits |= byte << (56 - r.count);
    r.count += 8;
  }
  const void* found = std::memchr(r.at, 0xff, std::size_t(r.end - r.at));
  r.safe = (found != nullptr ? static_cast<const std::byte*>(found) : r.end) - 8;
  return r;
}

/// The next symbol with its value as an entry, length aside.
inline std::int32_t BaselineScan::BitReader::take_entry(const HuffmanTable& table) {
  const std::int32_t entry = table.entry(bits);
  if ((entry & HuffmanTable::kLong) == 0) [[likely]] {
    drop(entry & HuffmanTable::kLengthMask);
    return entry;
  }
  const std::int32_t code = entry >> 16 != 0 ? entry : table.find(bits);
  const int size = code >> 16, run = code >> 8 & 255;
  drop(code & HuffmanTable::kLengthMask);
  if (size == 0) return code;
  const auto value = std::uint32_t(bits >> (64 - size));
  drop(size);
  return packed(extended(value, size), run, 0);
}

template <bool kKeep>
bool BaselineScan::decode_blocks(std::int16_t* const* blocks) {
  BitReader reader = reader_;
  for (int b = 0; b < layout_.num_blocks; ++b) {
    const std::size_t c = layout_.component[std::size_t(b)];
    const HuffmanTable& ac = ac_[c];
    std::int16_t* const block = kKeep ? blocks[b] : nullptr;
    reader.refill();
    const std::int32_t dc = reader.take_entry(dc_[c]);
    last_dc_[c] = std::int32_t(std::uint32_t(last_dc_[c]) + std::uint32_t(dc >> 16));
    if (kKeep) block[0] = std::int16_t(last_dc_[c]);
    if ((dc >> 8 & 255) == HuffmanTable::kNoCodeRun) return false;
    int k = 1;
    const auto take = [&] {
      const std::int32_t entry = reader.take_entry(ac);
      k += entry >> 8 & 255;
      if (kKeep) block[kOrder.place[k]] = std::int16_t(entry >> 16);
      ++k;
    };
    take();
    while (k < 64) {
      reader.refill();
      take();
      if (k < 64) take();
    }
    if ((k > 64 && k <= HuffmanTable::kEndRun) || reader.count < 0) return false;
  }
  reader_ = reader;
  return true;
}

/// Nothing but the rest of a byte lies before the next marker.
bool BaselineScan::ends_at_marker() {
  if (reader_.count >= 8) return false;
  if (!reader_.at_marker) {
    const int before = reader_.count;
    reader_ = BitReader::refilled(reader_);
    if (reader_.count != before) return false;
  }
  return reader_.at_marker && reader_.end - reader_.at >= 2;
}

bool BaselineScan::restart() {
  if (!ends_at_marker() || reader_.at[1] != std::byte(0xd0 + next_restart_)) return false;
  reader_.start(reader_.at + 2, reader_.end);
  last_dc_ = {};
  next_restart_ = (next_restart_ + 1) % 8;
  restart_in_ = layout_.restart_interval;
  return true;
}

bool BaselineScan::decode_mcu(std::int16_t* const* blocks) {
  if (mcus_left_ == 0) return false;
  if (layout_.restart_interval > 0 && restart_in_ == 0 && !restart()) return false;
  if (!(blocks != nullptr ? decode_blocks<true>(blocks) : decode_blocks<false>(blocks))) {
    return false;
  }
  --restart_in_;
  return --mcus_left_ > 0 || ends_at_marker();
}

}  // namespace tr::data
