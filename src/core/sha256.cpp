// SPDX-License-Identifier: Apache-2.0
#include "core/sha256.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/input_file.h"

namespace tr {
namespace {

constexpr std::array<std::uint32_t, 64> kRound{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::uint8_t* p) {
  return std::uint32_t(p[0]) << 24 | std::uint32_t(p[1]) << 16 | std::uint32_t(p[2]) << 8 | p[3];
}

}  // namespace

void Sha256::compress(State& state, const std::uint8_t* blocks, std::size_t num_blocks) {
  for (; num_blocks > 0; --num_blocks, blocks += 64) {
    std::array<std::uint32_t, 64> w;
    for (std::size_t t = 0; t < 16; ++t) w[t] = load_big_endian(blocks + 4 * t);
    for (std::size_t t = 16; t < 64; ++t) {
      const std::uint32_t s0 =
          std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
      const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (std::size_t t = 0; t < 64; ++t) {
      const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const State rounds{a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state[i] += rounds[i];
  }
}

void Sha256::update(std::span<const std::byte> bytes) {
  const auto* p = reinterpret_cast<const std::uint8_t*>(bytes.data());
  std::size_t left = bytes.size();
  const std::size_t waiting = num_bytes_ % 64;
  num_bytes_ += left;
  if (waiting != 0) {
    const std::size_t taken = std::min(left, 64 - waiting);
    std::copy_n(p, taken, block_.begin() + std::ptrdiff_t(waiting));
    p += taken;
    left -= taken;
    if (waiting + taken < 64) return;
    compress(state_, block_.data(), 1);
  }
  compress(state_, p, left / 64);
  std::copy_n(p + left / 64 * 64, left % 64, block_.begin());
}

std::array<std::uint8_t, 32> Sha256::digest() const {
  State state = state_;
  // The waiting bytes, 0x80, zeros, and the length in bits, big-endian.
  std::array<std::uint8_t, 128> tail{};
  const std::size_t waiting = num_bytes_ % 64;
  std::copy_n(block_.begin(), waiting, tail.begin());
  tail[waiting] = 0x80;
  const std::size_t padded = waiting < 56 ? 64 : 128;
  for (std::size_t i = 0; i < 8; ++i) {
    tail[padded - 1 - i] = std::uint8_t((num_bytes_ * 8) >> (8 * i));
  }
  compress(state, tail.data(), padded / 64);
  std::array<std::uint8_t, 32> hash;
  for (std::size_t i = 0; i < 32; ++i) hash[i] = std::uint8_t(state[i / 4] >> (24 - 8 * (i % 4)));
  return hash;
}

std::string Sha256::hex() const {
  std::string text;
  for (const std::uint8_t b : digest()) text += fmt::format("{:02x}", b);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_file(const std::string& path) {
  InputFile file(path);
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (std::uint64_t at = 0; at < file.num_bytes();) {
    const std::size_t count =
        std::size_t(std::min<std::uint64_t>(buffer.size(), file.num_bytes() - at));
    file.read(at, std::span(buffer).first(count));
    hash.update(std::span(buffer).first(count));
    at += count;
  }
  return hash.hex();
}

}  // namespace tr
