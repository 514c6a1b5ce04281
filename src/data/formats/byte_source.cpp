// SPDX-License-Identifier: Apache-2.0
#include "data/formats/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"

namespace tr::data {
namespace {

class PlainSource final : public ByteSource {
 public:
  explicit PlainSource(std::span<const std::byte> bytes) : left_(bytes) {}

  std::size_t read(std::span<std::byte> out) override {
    const std::size_t count = std::min(out.size(), left_.size());
    if (count > 0) std::memcpy(out.data(), left_.data(), count);
    left_ = left_.subspan(count);
    return count;
  }
  std::uint64_t max_remaining() const override { return left_.size(); }
  bool compressed() const override { return false; }

 private:
  std::span<const std::byte> left_;
};

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::span<const std::byte> bytes, std::string who)
      : left_(bytes), who_(std::move(who)) {
    // 16: a gzip wrapper is expected, nothing else.
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {
      throw_as<DataError>("{}: zlib cannot be started ({})", who_,
                          stream_.msg != nullptr ? stream_.msg : "no memory");
    }
  }
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> out) override {
    std::size_t count = 0;
    while (count < out.size() && !at_end_) count += inflate_some(out.subspan(count));
    return count;
  }
  /// Deflate expands a byte to at most 1032.
  std::uint64_t max_remaining() const override { return at_end_ ? 0 : 1032 * (left_.size() + 64); }
  bool compressed() const override { return true; }

 private:
  static constexpr std::size_t kStep = std::size_t(1) << 30;  // zlib counts in 32 bits

  std::size_t inflate_some(std::span<std::byte> out) {
    const std::size_t in_now = std::min(left_.size(), kStep), out_now = std::min(out.size(), kStep);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(left_.data()));
    stream_.avail_in = uInt(in_now);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = uInt(out_now);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    const std::size_t taken = in_now - stream_.avail_in, made = out_now - stream_.avail_out;
    left_ = left_.subspan(taken);
    if (status == Z_STREAM_END) {
      next_member();
    } else if (status == Z_BUF_ERROR || (status == Z_OK && taken == 0 && made == 0)) {
      throw_as<DataError>("{}: the gzip stream ends early (the file is cut)", who_);
    } else if (status != Z_OK) {
      throw_as<DataError>("{}: the gzip data is damaged ({})", who_,
                          stream_.msg != nullptr ? stream_.msg : zError(status));
    }
    return made;
  }

  void next_member() {
    if (left_.empty()) {
      at_end_ = true;
      return;
    }
    if (!is_gzip(left_)) {
      throw_as<DataError>("{}: {} bytes follow the end of the gzip stream", who_, left_.size());
    }
    inflateReset(&stream_);
  }

  std::span<const std::byte> left_;
  std::string who_;
  z_stream stream_{};
  bool at_end_ = false;
};

}  // namespace

std::uint64_t ByteSource::skip_rest() {
  std::array<std::byte, 65536> bytes;
  std::uint64_t total = 0;
  for (;;) {
    const std::size_t count = read(bytes);
    total += count;
    if (count < bytes.size()) return total;
  }
}

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

std::unique_ptr<ByteSource> open_bytes(std::span<const std::byte> bytes, const std::string& who) {
  if (is_gzip(bytes)) return std::make_unique<GzipSource>(bytes, who);
  return std::make_unique<PlainSource>(bytes);
}

}  // namespace tr::data
