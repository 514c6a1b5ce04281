// SPDX-License-Identifier: Apache-2.0
// glu and its gradient.
#include "backend/cpu/map_kernels.h"
#include "backend/gate_functors.h"

namespace tr::cpu {
namespace {

/// Calls f(gate, T, layout) with the kernel's gate, storage type and halves.
template <typename F>
void dispatch_gate(const KernelArgs& args, const Shape& y, F&& f) {
  const GateLayout layout(args.attrs(), y);
  const bool known = functors::visit_gate(args.attrs().str("gate"), [&](const auto& gate) {
    dispatch_float(args.in_type(0).dtype, [&](auto tag) { f(gate, tag, layout); });
  });
  TR_ASSERT(known);
}

void launch_forward(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  dispatch_gate(args, shape, [&](const auto& gate, auto tag, const GateLayout& at) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_chunks(args.pool(), shape.num_elements(), kStreamChunk,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* block = x + at.block(i);
                   const float plain = to_float(block[at.plain]), gated = to_float(block[at.gated]);
                   y[i] = from_float<T>(plain * gate(gated));
                 }
               });
  });
}

void launch_backward(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  dispatch_gate(args, shape, [&](const auto& gate, auto tag, const GateLayout& at) {
    using T = typename decltype(tag)::type;
    const T *dy = args.in<T>(0), *x = args.in<T>(1);
    T* dx = args.out<T>(0);
    for_chunks(args.pool(), shape.num_elements(), kStreamChunk,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const T* block = x + at.block(i);
                   T* into = dx + at.block(i);
                   const float d = to_float(dy[i]), plain = to_float(block[at.plain]);
                   const float gated = to_float(block[at.gated]);
                   into[at.plain] = from_float<T>(d * gate(gated));
                   into[at.gated] = from_float<T>(functors::gate_grad(gate, gated, d * plain));
                 }
               });
  });
}

const KernelRegistration kForward{simple_kernel("glu", launch_forward, refuse_mixed)};
const KernelRegistration kBackward{simple_kernel("glu_backward", launch_backward, refuse_mixed)};

}  // namespace
}  // namespace tr::cpu
