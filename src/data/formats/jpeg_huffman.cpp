// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg_huffman.h"

#include <algorithm>

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
  if (kind == Kind::AC) make_pairs();
  good_ = true;
  return true;
}

void HuffmanTable::make_pairs() {
  constexpr std::uint32_t kMask = (1u << kIndexBits) - 1;
  for (std::uint32_t i = 0; i <= kMask; ++i) {
    const std::int32_t one = entries_[i], length = one & kLengthMask, run = one >> 8 & 255;
    Pair pair;
    if ((one & kLong) == 0) {
      pair = {std::uint8_t(length), 63, std::uint8_t(run), std::uint8_t(run),
              std::int16_t(one >> 16)};
      const std::int32_t two = entries_[i << length & kMask], both = length + (two & kLengthMask);
      if (run != kEndRun && (two & kLong) == 0 && both <= kIndexBits) {
        pair.length = std::uint8_t(both);
        pair.most = std::uint8_t(62 - run);
        pair.second = std::uint8_t(run + 1 + (two >> 8 & 255));
        pair.second_value = std::int16_t(two >> 16);
      }
    }
    pairs_[i] = pair;
  }
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
  end_ = data.data() + data.size();
  start_bits(data.data());
  layout_ = layout;
  last_dc_ = {};
  asked_ = asked_column_ = next_ = column_ = first_ = 0;
  last_ = layout.mcus_per_row - 1;
  marks_ = nullptr;
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

void BaselineScan::start_bits(const std::byte* from) {
  reader_ = {.at = from, .safe = from - 1};
  next_ff_ = from;
  at_marker_ = false;
}

/// At least 56 bits: enough for two symbols with their values. Fewer only near the end of the scan.
/// Bits that are loaded but not counted yet are loaded again, the same, the next time.
inline void BaselineScan::refill(Bits& reader) {
  if (reader.at > reader.safe) [[unlikely]] {
    reader_.bits = reader.bits;  // one by one: `reader` stays in registers
    reader_.at = reader.at;
    reader_.count = reader.count;
    refill_bytes();
    reader.bits = reader_.bits;
    reader.at = reader_.at;
    reader.safe = reader_.safe;
    reader.count = reader_.count;
    return;
  }
  reader.bits |= load_big_endian(reader.at) >> reader.count;
  reader.at += (63 - reader.count) >> 3;
  reader.count |= 56;
}

/// reader_ byte by byte: FF 00 is a byte FF, FF and anything else a marker.
[[gnu::noinline]] void BaselineScan::refill_bytes() {
  Bits r = reader_;
  while (r.count < 56 && !at_marker_ && r.at < end_) {
    const auto byte = std::uint64_t(*r.at);
    if (byte == 0xff) {
      at_marker_ = end_ - r.at < 2 || r.at[1] != std::byte{0};
      if (at_marker_) break;
      ++r.at;
    }
    ++r.at;
    r.bits |= byte << (56 - r.count);
    r.count += 8;
  }
  if (r.at > next_ff_) {
    const void* found = std::memchr(r.at, 0xff, std::size_t(end_ - r.at));
    next_ff_ = found != nullptr ? static_cast<const std::byte*>(found) : end_;
    r.safe = next_ff_ - 8;
  }
  reader_ = r;
}

/// The next symbol with its value as an entry, length aside.
inline std::int32_t BaselineScan::Bits::take_entry(const HuffmanTable& table) {
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

/// A symbol or two of a block of which k coefficients are known; returns how many are now.
template <bool kKeep>
inline std::size_t BaselineScan::Bits::take_pair(const HuffmanTable& ac, std::size_t k,
                                                 std::int16_t* block) {
  const HuffmanTable::Pair pair = ac.pair(bits);
  if (k > pair.most) [[unlikely]] {
    const std::int32_t entry = take_entry(ac);
    k += std::size_t(entry >> 8 & 255);
    if (kKeep) block[kOrder.place[k]] = std::int16_t(entry >> 16);
    return k + 1;
  }
  drop(pair.length);
  if (kKeep) {
    block[kOrder.place[k + pair.second]] = pair.second_value;
    block[kOrder.place[k + pair.first]] = pair.first_value;
  }
  return k + pair.second + 1;
}

template <bool kKeep>
bool BaselineScan::decode_blocks(std::int16_t* const* blocks) {
  Bits reader = reader_;
  for (int b = 0; b < layout_.num_blocks; ++b) {
    const std::size_t c = layout_.component[std::size_t(b)];
    const HuffmanTable& ac = ac_[c];
    std::int16_t* const block = kKeep ? blocks[b] : nullptr;
    refill(reader);
    const std::int32_t dc = reader.take_entry(dc_[c]);
    last_dc_[c] = std::int32_t(std::uint32_t(last_dc_[c]) + std::uint32_t(dc >> 16));
    if (kKeep) block[0] = std::int16_t(last_dc_[c]);
    if ((dc >> 8 & 255) == HuffmanTable::kNoCodeRun) return false;
    std::size_t k = reader.take_pair<kKeep>(ac, 1, block);
    while (k < 64) {
      refill(reader);
      k = reader.take_pair<kKeep>(ac, k, block);
      if (k < 64) k = reader.take_pair<kKeep>(ac, k, block);
    }
    if ((k > 64 && k <= std::size_t(HuffmanTable::kEndRun)) || reader.count < 0) return false;
  }
  reader_.bits = reader.bits;
  reader_.at = reader.at;
  reader_.safe = reader.safe;
  reader_.count = reader.count;
  return true;
}

/// Nothing but the rest of a byte lies before the next marker.
bool BaselineScan::ends_at_marker() {
  if (reader_.count >= 8) return false;
  if (!at_marker_) {
    const int before = reader_.count;
    refill_bytes();
    if (reader_.count != before) return false;
  }
  return at_marker_ && end_ - reader_.at >= 2;
}

bool BaselineScan::restart() {
  if (!ends_at_marker() || reader_.at[1] != std::byte(0xd0 + next_restart_)) return false;
  start_bits(reader_.at + 2);
  last_dc_ = {};
  next_restart_ = (next_restart_ + 1) % 8;
  restart_in_ = layout_.restart_interval;
  return true;
}

template <bool kKeep>
bool BaselineScan::decode_next(std::int16_t* const* blocks) {
  if (layout_.restart_interval > 0 && restart_in_ == 0 && !restart()) return false;
  if (!decode_blocks<kKeep>(blocks)) return false;
  --restart_in_;
  ++next_;
  if (++column_ == layout_.mcus_per_row) {
    column_ = 0;
    if (marks_ != nullptr) add_mark();
  }
  return true;
}

/// Up to MCU `mcu`, by a mark if there is one on the way.
bool BaselineScan::reach(std::int64_t mcu) {
  if (marks_ != nullptr && next_ < mcu) {
    const std::int64_t last =
        std::min<std::int64_t>(mcu / layout_.mcus_per_row / marks_->rows_per_mark, marks_->known);
    const std::int64_t row = last * marks_->rows_per_mark;
    if (row * layout_.mcus_per_row > next_) go_to_mark(row);
  }
  while (next_ < mcu) {
    if (!decode_next<false>(nullptr)) return false;
  }
  return true;
}

bool BaselineScan::decode_mcu(std::int16_t* const* blocks) {
  if (is_done()) return false;
  const bool keep = blocks != nullptr && asked_column_ >= first_ && asked_column_ <= last_;
  if (keep && !(reach(asked_) && decode_next<true>(blocks))) return false;
  ++asked_;
  if (++asked_column_ == layout_.mcus_per_row) {
    asked_column_ = 0;
    const bool begun = next_ > asked_ - layout_.mcus_per_row;
    if (begun && !has_mark(asked_ / layout_.mcus_per_row) && !reach(asked_)) return false;
  }
  return !is_done() || (reach(asked_) && ends_at_marker());
}

void BaselineScan::use_marks(ScanMarks& marks) {
  if (data_.size() > ScanMarks::kMostBytes ||
      layout_.num_components > int(ScanMarks::kComponents)) {
    return;
  }
  marks_ = &marks;
  const std::int64_t rows = layout_.num_mcus / layout_.mcus_per_row;
  const bool reaches = marks.known == 0 || marks.offset_bits[marks.known - 1u] >> 3 < data_.size();
  if (!reaches) marks.known = 0;  // they are of other bytes
  marks.rows_per_mark = std::uint16_t(rows / std::int64_t(ScanMarks::kMost + 1) + 1);
}

bool BaselineScan::has_mark(std::int64_t row) const {
  return marks_ != nullptr && row % marks_->rows_per_mark == 0 &&
         row / marks_->rows_per_mark <= marks_->known;
}

/// Of the row that reader_ is at the beginning of, if it is the next one that gets a mark.
void BaselineScan::add_mark() {
  const std::int64_t row = next_ / layout_.mcus_per_row;
  const std::size_t i = marks_->known;
  if (i == ScanMarks::kMost || row != std::int64_t(i + 1) * marks_->rows_per_mark) return;
  // Back over the bytes that are loaded and not used yet.
  const std::byte* at = reader_.at;
  int bits = reader_.count;
  for (; bits > 0; bits -= 8) {
    const bool pair = at - data_.data() >= 2 && at[-1] == std::byte{0} && at[-2] == std::byte{0xff};
    at -= pair ? 2 : 1;
  }
  for (std::size_t c = 0; c < std::size_t(layout_.num_components); ++c) {
    const auto value = std::int16_t(last_dc_[c]);
    if (value != last_dc_[c]) return;  // of no sound picture
    marks_->dc[i][c] = value;
  }
  marks_->offset_bits[i] = std::uint32_t(at - data_.data()) << 3 | std::uint32_t(-bits);
  ++marks_->known;
}

void BaselineScan::go_to_mark(std::int64_t row) {
  const auto i = std::size_t(row / marks_->rows_per_mark - 1);
  start_bits(data_.data() + (marks_->offset_bits[i] >> 3));
  refill_bytes();
  reader_.drop(int(marks_->offset_bits[i] & 7));
  for (std::size_t c = 0; c < std::size_t(layout_.num_components); ++c) {
    last_dc_[c] = marks_->dc[i][c];
  }
  next_ = row * layout_.mcus_per_row;
  column_ = 0;
  if (layout_.restart_interval == 0) return;
  // A restart that is due here is still to come.
  const std::int64_t restarts = (next_ - 1) / layout_.restart_interval;
  restart_in_ = std::uint32_t((restarts + 1) * layout_.restart_interval - next_);
  next_restart_ = std::uint32_t(restarts % 8);
}

}  // namespace tr::data
