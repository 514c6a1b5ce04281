// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace tr::ops {

/// What the backward pass of a function of one input keeps.
enum class Saves { X, Y };

/// A function of one input, element by element.
struct Unary {
  std::string name;
  Saves saves;
  int flops;                    // an element, forward; a transcendental function counts as 8
  std::vector<AttrSpec> attrs;  // at most two numbers, in the order of the functor's fields
  std::function<void(const Attrs&)> check;  // throws InvalidArgument; may be empty
  std::string doc;
};

/// Registers y = f(x) as `name` and dx = dy f'(x), from what is saved, as `name`_backward.
void register_unary(const Unary& op);

}  // namespace tr::ops
