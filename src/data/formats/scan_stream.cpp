// SPDX-License-Identifier: Apache-2.0
#include "data/formats/scan_stream.h"

#include <bit>
#include <cstring>

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

std::uint64_t load_big_endian(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  static_assert(std::endian::native == std::endian::little);
  return __builtin_bswap64(word);
}

/// Of a block whose decoding ended at coefficient k: it is not longer than a block is.
bool is_whole(std::size_t k) { return k == 64 || k > std::size_t(HuffmanTable::kEndRun); }

/// Makes what `specs` say, each once.
template <typename Specs, typename Tables, typename Places>
bool make_tables(const Specs& specs, int count, HuffmanTable::Kind kind, Tables& tables,
                 Places& places) {
  for (std::size_t c = 0; c < std::size_t(count); ++c) {
    std::size_t same = 0;
    while (specs[same] != specs[c]) ++same;
    places[c] = std::uint8_t(same);
    if (same == c && !tables[c].make(specs[c], kind)) return false;
  }
  return true;
}

}  // namespace

bool ScanSource::begin(std::span<const std::byte> bytes, const ScanLayout& layout) {
  bytes_ = bytes;
  layout_ = layout;
  const int count = layout.num_components;
  Places dc_of{}, ac_of{};
  if (!make_tables(layout.dc, count, HuffmanTable::Kind::DC, dc_, dc_of) ||
      !make_tables(layout.ac, count, HuffmanTable::Kind::AC, ac_, ac_of)) {
    return false;
  }
  for (std::size_t b = 0; b < std::size_t(layout.num_blocks); ++b) {
    const std::size_t c = layout.component[b];
    blocks_[b] = {c, &dc_[dc_of[c]], &ac_[ac_of[c]]};
  }
  return true;
}

ScanStream::ScanStream(const ScanSource& source)
    : source_(&source), restart_in_(source.layout().restart_interval) {
  start_bits(source.data());
}

void ScanStream::start_bits(const std::byte* from) {
  reader_ = {.at = from, .safe = nullptr};
  next_ff_ = from;
  at_marker_ = false;
}

/// At least 56 bits: enough for two symbols with their values. Fewer only near the end of the scan.
/// Bits that are loaded but not counted yet are loaded again, the same, the next time.
inline void ScanStream::refill(Bits& reader) {
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
  reader.at += unsigned(63 - reader.count) >> 3;
  reader.count |= 56;
}

/// reader_ byte by byte: FF 00 is a byte FF, FF and anything else a marker.
[[gnu::noinline]] void ScanStream::refill_bytes() {
  const std::byte* const end = source_->end();
  Bits r = reader_;
  while (r.count < 56 && !at_marker_ && r.at < end) {
    const auto byte = std::uint64_t(*r.at);
    if (byte == 0xff) {
      at_marker_ = end - r.at < 2 || r.at[1] != std::byte{0};
      if (at_marker_) break;
      ++r.at;
    }
    ++r.at;
    r.bits |= byte << (56 - r.count);
    r.count += 8;
  }
  if (r.at > next_ff_) {
    const void* found = std::memchr(r.at, 0xff, std::size_t(end - r.at));
    next_ff_ = found != nullptr ? static_cast<const std::byte*>(found) : end;
    r.safe = next_ff_ - source_->data() >= 8 ? next_ff_ - 8 : nullptr;
  }
  reader_ = r;
}

/// The next symbol with its value.
inline std::int32_t ScanStream::Bits::take_entry(const HuffmanTable& table) {
  std::int32_t entry = table.entry(bits);
  if ((entry & HuffmanTable::kLong) != 0) [[unlikely]]
    entry = table.long_entry(bits);
  drop(entry & HuffmanTable::kLengthMask);
  return entry;
}

/// A symbol or two of a block of which k coefficients are known; returns how many are now.
template <bool kKeep>
inline std::size_t ScanStream::Bits::take_pair(const HuffmanTable& ac, std::size_t k,
                                               std::int16_t* block) {
  const HuffmanTable::Pair pair = ac.pair(bits);
  if (k > pair.most) [[unlikely]] {
    if (pair.has_long_value()) [[likely]] {
      const int size = pair.value_bits();
      const auto value = std::uint32_t(bits << pair.code_bits() >> (64 - size));
      drop(pair.length);
      k += pair.first;
      if (kKeep) block[kOrder.place[k]] = std::int16_t(HuffmanTable::extended(value, size));
      return k + 1;
    }
    const std::int32_t entry = ac.long_entry(bits);
    drop(entry & HuffmanTable::kLengthMask);
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

/// The DC coefficient. False: there is no such code.
template <bool kKeep>
inline bool ScanStream::begin_block(Bits& reader, const ScanSource::Block& source,
                                    std::int16_t* block) {
  refill(reader);
  const std::int32_t dc = reader.take_entry(*source.dc);
  std::int32_t& last = last_dc_[source.component];
  last = std::int32_t(std::uint32_t(last) + std::uint32_t(dc >> 16));
  if (kKeep) block[0] = std::int16_t(last);
  return (dc >> 8 & 255) != HuffmanTable::kNoCodeRun;
}

/// The rest of a block of which k coefficients are known.
template <bool kKeep>
inline std::size_t ScanStream::end_block(Bits& reader, const HuffmanTable& ac, std::size_t k,
                                         std::int16_t* block) {
  while (k < 64) {
    refill(reader);
    k = reader.take_pair<kKeep>(ac, k, block);
    if (k < 64) k = reader.take_pair<kKeep>(ac, k, block);
  }
  return k;
}

template <bool kKeep>
bool ScanStream::decode_blocks(std::int16_t* const* blocks) {
  const int num_blocks = source_->layout().num_blocks;
  Bits reader = reader_;
  for (int b = 0; b < num_blocks; ++b) {
    const ScanSource::Block& source = source_->block(b);
    std::int16_t* const block = kKeep ? blocks[b] : nullptr;
    if (!begin_block<kKeep>(reader, source, block)) return false;
    const HuffmanTable& ac = *source.ac;
    const std::size_t k =
        end_block<kKeep>(reader, ac, reader.take_pair<kKeep>(ac, 1, block), block);
    if (!is_whole(k) || reader.count < 0) return false;
  }
  reader_ = reader;
  return true;
}

template <bool kKeep>
ScanStream::Both ScanStream::decode_both_blocks(ScanStream& first,
                                                std::int16_t* const* first_blocks,
                                                ScanStream& second,
                                                std::int16_t* const* second_blocks) {
  const int num_blocks = first.source_->layout().num_blocks;
  Bits p = first.reader_, q = second.reader_;
  Both good{true, true};
  for (int b = 0; b < num_blocks; ++b) {
    const ScanSource::Block& source = first.source_->block(b);
    const HuffmanTable& ac = *source.ac;
    std::int16_t* const p_block = kKeep ? first_blocks[b] : nullptr;
    std::int16_t* const q_block = kKeep ? second_blocks[b] : nullptr;
    good.first &= first.begin_block<kKeep>(p, source, p_block);
    good.second &= second.begin_block<kKeep>(q, source, q_block);
    std::size_t i = p.take_pair<kKeep>(ac, 1, p_block), j = q.take_pair<kKeep>(ac, 1, q_block);
    while ((i | j) < 64) {
      first.refill(p);
      second.refill(q);
      i = p.take_pair<kKeep>(ac, i, p_block);
      j = q.take_pair<kKeep>(ac, j, q_block);
      if (i < 64) i = p.take_pair<kKeep>(ac, i, p_block);
      if (j < 64) j = q.take_pair<kKeep>(ac, j, q_block);
    }
    i = first.end_block<kKeep>(p, ac, i, p_block);
    j = second.end_block<kKeep>(q, ac, j, q_block);
    good.first &= is_whole(i) && p.count >= 0;
    good.second &= is_whole(j) && q.count >= 0;
  }
  first.reader_ = p;
  second.reader_ = q;
  return good;
}

bool ScanStream::ends_at_marker() {
  if (reader_.count >= 8) return false;
  if (!at_marker_) {
    const int before = reader_.count;
    refill_bytes();
    if (reader_.count != before) return false;
  }
  return at_marker_ && source_->end() - reader_.at >= 2;
}

bool ScanStream::restart() {
  if (!ends_at_marker() || reader_.at[1] != std::byte(0xd0 + next_restart_)) return false;
  start_bits(reader_.at + 2);
  last_dc_ = {};
  next_restart_ = (next_restart_ + 1) % 8;
  restart_in_ = source_->layout().restart_interval;
  return true;
}

bool ScanStream::restart_if_due() {
  return source_->layout().restart_interval == 0 || restart_in_ > 0 || restart();
}

void ScanStream::go_on() {
  --restart_in_;
  ++mcu_;
  if (++column_ == source_->layout().mcus_per_row) column_ = 0;
}

bool ScanStream::decode(std::int16_t* const* blocks) {
  if (!restart_if_due()) return false;
  if (!(blocks != nullptr ? decode_blocks<true>(blocks) : decode_blocks<false>(nullptr))) {
    return false;
  }
  go_on();
  return true;
}

ScanStream::Both ScanStream::decode_both(ScanStream& first, std::int16_t* const* first_blocks,
                                         ScanStream& second, std::int16_t* const* second_blocks) {
  if (!second.restart_if_due()) return {first.decode(first_blocks), false};
  if (!first.restart_if_due()) return {false, false};
  const Both good = first_blocks != nullptr
                        ? decode_both_blocks<true>(first, first_blocks, second, second_blocks)
                        : decode_both_blocks<false>(first, nullptr, second, nullptr);
  first.go_on();
  second.go_on();
  return good;
}

bool ScanStream::mark(ScanMarks& marks, std::size_t i) const {
  // Back over the bytes that are loaded and not used yet.
  const std::byte *at = reader_.at, *const begin = source_->data();
  int bits = reader_.count;
  for (; bits > 0; bits -= 8) {
    const bool pair = at - begin >= 2 && at[-1] == std::byte{0} && at[-2] == std::byte{0xff};
    at -= pair ? 2 : 1;
  }
  for (std::size_t c = 0; c < std::size_t(source_->layout().num_components); ++c) {
    const auto value = std::int16_t(last_dc_[c]);
    if (value != last_dc_[c]) return false;  // of no sound picture
    marks.dc[i][c] = value;
  }
  marks.offset_bits[i] = std::uint32_t(at - begin) << 3 | std::uint32_t(-bits);
  return true;
}

void ScanStream::go_to(const ScanMarks& marks, std::size_t i, std::int64_t mcu) {
  start_bits(source_->data() + (marks.offset_bits[i] >> 3));
  refill_bytes();
  reader_.drop(int(marks.offset_bits[i] & 7));
  const ScanLayout& layout = source_->layout();
  for (std::size_t c = 0; c < std::size_t(layout.num_components); ++c) {
    last_dc_[c] = marks.dc[i][c];
  }
  mcu_ = mcu;
  column_ = 0;
  if (layout.restart_interval == 0) return;
  // A restart that is due here is still to come.
  const std::int64_t restarts = (mcu - 1) / layout.restart_interval;
  restart_in_ = std::uint32_t((restarts + 1) * layout.restart_interval - mcu);
  next_restart_ = std::uint32_t(restarts % 8);
}

}  // namespace tr::data
