// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "renaissance/data/transforms.h"

namespace tr::data {

/// The words of a parameter that is no number, in the order of its values: what to_string() shows
/// and recipes name.
template <typename E>
struct Words;

template <>
struct Words<PadMode> {
  static constexpr std::string_view kAll[] = {"CONSTANT", "EDGE", "REFLECT", "SYMMETRIC"};
};
template <>
struct Words<Interpolation> {
  static constexpr std::string_view kAll[] = {"NEAREST", "BILINEAR", "BICUBIC"};
};
template <>
struct Words<ResizeMode> {
  static constexpr std::string_view kAll[] = {"SHORT_SIDE", "SQUARE", "STRETCH"};
};

/// "224", "[60, 160]"
inline std::string text_of(ImageSize size) {
  const std::string height = std::to_string(size.height);
  if (size.height == size.width) return height;
  return "[" + height + ", " + std::to_string(size.width) + "]";
}

/// "BILINEAR"
template <typename E>
constexpr std::string_view word_of(E value) {
  return Words<E>::kAll[int(value)];
}

}  // namespace tr::data
