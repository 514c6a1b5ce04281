// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/content_hash.h"
#include "core/crc32.h"
#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hash(std::string_view text) { return sha256_hex(bytes_of_text(text)); }

// Examples of FIPS 180-4 (csrc.nist.gov, SHA256.pdf, SHA2_Additional.pdf).
TEST(Sha256Test, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(hash(std::string(55, '\0')),
            "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
  EXPECT_EQ(hash(std::string(56, '\0')),
            "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
  EXPECT_EQ(hash(std::string(64, '\0')),
            "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
}

TEST(Sha256Test, PiecesGiveTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += char(i * 37);
  const std::string whole = hash(text);
  for (const std::size_t piece : {1u, 3u, 63u, 64u, 65u, 127u, 500u}) {
    Sha256 h;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      h.update(std::string_view(text).substr(at, piece));
      h.digest();  // looking at it changes nothing
    }
    EXPECT_EQ(h.hex(), whole) << piece;
  }
}

TEST(Sha256Test, HashesAFile) {
  const std::string path = testing::TempDir() + "sha256_test_file";
  const std::string content(3'000'000, 'x');  // several reads
  write_file_atomically(path, content);
  EXPECT_EQ(sha256_file(path), hash(content));
  std::remove(path.c_str());
  EXPECT_TRUE(test::throws<DataError>([&] { sha256_file(path); }, path));
}

// The check value of the CRC catalogue, and the property that zlib promises.
TEST(Crc32Test, AgreesWithTheCatalogueAndContinues) {
  const std::string_view digits = "123456789";
  EXPECT_EQ(crc32(bytes_of_text(digits)), 0xCBF43926u);
  EXPECT_EQ(crc32(bytes_of_text(digits.substr(4)), crc32(bytes_of_text(digits.substr(0, 4)))),
            0xCBF43926u);
  EXPECT_EQ(crc32({}, 77u), 77u);
  EXPECT_EQ(crc32({}), 0u);
}

TEST(ContentHashTest, EveryBitAndTheLengthCount) {
  std::set<std::uint64_t> seen;
  std::size_t strings = 0;
  for (const std::size_t size : {0u, 1u, 8u, 31u, 32u, 33u, 64u, 200u}) {
    std::vector<std::byte> bytes(size);
    seen.insert(content_hash(bytes));
    ++strings;
    for (std::size_t bit = 0; bit < 8 * size; ++bit, ++strings) {
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
      seen.insert(content_hash(bytes));
      bytes[bit / 8] ^= std::byte(1 << bit % 8);
    }
  }
  EXPECT_EQ(seen.size(), strings);
  EXPECT_NE(content_hash({}), content_hash({}, 1)) << "the seed";
}

}  // namespace
}  // namespace tr
