// SPDX-License-Identifier: Apache-2.0
// Any bytes that begin as a JPEG does are a picture or a DataError, decoded whole, in part and
// smaller; a part is the same pixels as the whole.
#include "picture_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tr::fuzz::PictureFuzz fuzz({0xff, 0xd8, 0xff});
  return fuzz.run(data, size);
}
