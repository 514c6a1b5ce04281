// SPDX-License-Identifier: Apache-2.0
// glu and its gradient.
#include "backend/cuda/map.cuh"
#include "backend/cuda/map_functor.cuh"
#include "backend/gate_functors.h"

namespace tr::cuda {
namespace {

template <typename T, typename Gate>
struct Forward {
  const T* x;
  T* y;
  Gate gate;
  GateLayout at;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const T* block = x + at.block(i);
    y[i] = from_float<T>(to_float(block[at.plain]) * gate(to_float(block[at.gated])));
  }
};

template <typename T, typename Gate>
struct Backward {
  const T *dy, *x;
  T* dx;
  Gate gate;
  GateLayout at;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const T* block = x + at.block(i);
    T* into = dx + at.block(i);
    const float d = to_float(dy[i]), plain = to_float(block[at.plain]);
    const float gated = to_float(block[at.gated]);
    into[at.plain] = from_float<T>(d * gate(gated));
    into[at.gated] = from_float<T>(functors::gate_grad(gate, gated, d * plain));
  }
};

struct LaunchForward {
  const KernelArgs& args;

  template <typename Gate>
  void operator()(const Gate& gate) const {
    const Shape& shape = args.out_type(0).shape;
    dispatch_float(args.in_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch_map<1>(
          args, shape.num_elements(), true,
          Forward<T, Gate>{args.in<T>(0), args.out<T>(0), gate, GateLayout(args.attrs(), shape)});
    });
  }
};

struct LaunchBackward {
  const KernelArgs& args;

  template <typename Gate>
  void operator()(const Gate& gate) const {
    const Shape& shape = args.in_type(0).shape;
    dispatch_float(args.in_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      launch_map<1>(args, shape.num_elements(), true,
                    Backward<T, Gate>{args.in<T>(0), args.in<T>(1), args.out<T>(0), gate,
                                      GateLayout(args.attrs(), shape)});
    });
  }
};

void launch_forward(const KernelArgs& args) {
  const bool known = functors::visit_gate(args.attrs().str("gate"), LaunchForward{args});
  TR_ASSERT(known);
}

void launch_backward(const KernelArgs& args) {
  const bool known = functors::visit_gate(args.attrs().str("gate"), LaunchBackward{args});
  TR_ASSERT(known);
}

const KernelRegistration kForward{simple_kernel("glu", launch_forward, refuse_mixed)};
const KernelRegistration kBackward{simple_kernel("glu_backward", launch_backward, refuse_mixed)};

}  // namespace
}  // namespace tr::cuda
