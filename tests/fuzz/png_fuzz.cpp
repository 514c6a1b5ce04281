// SPDX-License-Identifier: Apache-2.0
// Any bytes that begin as a PNG does are a picture or a DataError, decoded whole and in part; a
// part is the same pixels as the whole.
#include "picture_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tr::fuzz::PictureFuzz fuzz({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'});
  return fuzz.run(data, size);
}
