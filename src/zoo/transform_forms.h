// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "renaissance/data/transforms.h"

namespace tr::zoo {

/// Where a parameter's value goes; the type says what it is.
using Target =
    std::variant<int*, float*, bool*, Range*, ImageSize*, PadMode*, ResizeMode*, Interpolation*>;

struct TransformParameter {
  std::string_view name;
  Target (*target)(Transform& transform);  // the member of a transform of this form
};

/// How a text names a transform.
struct TransformForm {
  std::string_view name;
  Transform initial;         // defaults are those of the constructor
  std::size_t num_required;  // of the first parameters, which have none
  std::vector<TransformParameter> parameters;

  /// "Pad(padding, fill=0, mode=CONSTANT)"
  std::string signature() const;
};

/// A form for each alternative of Transform.
std::span<const TransformForm> transform_forms();

/// The words of a parameter that is no number; else none.
std::span<const std::string_view> words_of(const Target& target);

/// "0.5", "[0.08, 1]", "BILINEAR"
std::string text_of(const Target& target);

}  // namespace tr::zoo
