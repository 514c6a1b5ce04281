// SPDX-License-Identifier: Apache-2.0
#pragma once

// Half of x times a function of the other half, once for all devices.

#include <cstdint>
#include <string_view>

#include "backend/elementwise_functors.h"
#include "renaissance/core/shape.h"
#include "renaissance/graph/attrs.h"

namespace tr::functors {

/// Functions of the gated half, by the names of their ops.
template <typename Math>
using Gates = List<Sigmoid<Math>, Silu<Math>, Gelu<Math>, GeluTanh<Math>, Relu<Math>, Tanh<Math>>;

/// Calls f(gate) for the one of that name; false if there is none.
template <typename Math = StdMath, typename F>
bool visit_gate(std::string_view name, F&& f) {
  bool found = false;
  for_each(Gates<Math>{}, [&]<typename Gate>() {
    if (Gate::kName != name) return;
    f(Gate{});
    found = true;
  });
  return found;
}

/// dgated = dvalue * gate'(x)
template <typename Gate>
TR_HOST_DEVICE inline float gate_grad(const Gate& gate, float x, float dvalue) {
  if constexpr (Gate::kSaves == Saved::Y) {
    return gate.grad(gate(x), dvalue);
  } else {
    return gate.grad(x, dvalue);
  }
}

}  // namespace tr::functors

namespace tr {

/// Where element i of y [.., C, ..] finds its two halves in x [.., 2 C, ..].
struct GateLayout {
  std::int64_t half;   // elements of C and the axes behind it
  std::int64_t gated;  // offset of what goes through the gate: 0 or half
  std::int64_t plain;

  GateLayout(const Attrs& attrs, const Shape& y) : half(1) {
    const std::int64_t given = attrs.i64("axis");
    for (int i = int(given < 0 ? given + y.rank() : given); i < y.rank(); ++i) half *= y[i];
    gated = attrs.i64("gated") == 0 ? 0 : half;
    plain = half - gated;
  }
  /// Of the first half of element i's block.
  TR_HOST_DEVICE std::int64_t block(std::int64_t i) const { return i + i / half * half; }
};

}  // namespace tr
