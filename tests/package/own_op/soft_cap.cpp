// SPDX-License-Identifier: Apache-2.0
// y = cap * tanh(x / cap): an op of our own with one attribute, its gradient, and CPU kernels.
#include "soft_cap.h"

#include <cmath>
#include <stdexcept>

using namespace tr;

namespace {

constexpr std::int64_t kChunk = 4096;  // elements of a task

/// y[i] = f(a[i], b[i]) for all elements of the first output; a and b are inputs 0 and 1, or 0.
template <typename F>
void map(const KernelCall& call, int b_input, F f) {
  const DType dtype = call.out_type(0).dtype;
  const auto size = std::int64_t(size_of(dtype));
  const std::int64_t count = call.out_type(0).shape.num_elements();
  call.parallel_for(count, kChunk, [&](std::int64_t begin, std::int64_t end) {
    float a[kChunk], b[kChunk];
    load_floats(dtype, call.in<std::byte>(0) + begin * size, end - begin, a);
    load_floats(dtype, call.in<std::byte>(b_input) + begin * size, end - begin, b);
    for (std::int64_t i = 0; i < end - begin; ++i) a[i] = f(a[i], b[i]);
    store_floats(dtype, a, end - begin, call.out<std::byte>(0) + begin * size);
  });
}

void forward(const KernelCall& call) {
  const float cap = call.attrs().f32("cap");
  map(call, 0, [&](float x, float) { return cap * std::tanh(x / cap); });
}

void backward(const KernelCall& call) {
  const float cap = call.attrs().f32("cap");
  map(call, 1, [&](float dy, float y) { return dy * (1 - (y / cap) * (y / cap)); });
}

std::vector<TensorType> infer(const Attrs& attrs, std::span<const TensorType> in) {
  if (!is_floating(in[0].dtype))
    throw InvalidArgument("x is " + to_string(in[0]) + ", expected floats");
  if (!(attrs.f64("cap") > 0))
    throw InvalidArgument("cap is " + std::to_string(attrs.f64("cap")) + ", expected above 0");
  return {in[0]};
}

}  // namespace

void register_soft_cap() {
  const std::vector<UserAttr> attrs = {{"cap", 1.0, "y stays within (-cap, cap)"}};
  register_op({.name = "soft_cap",
               .inputs = {"x"},
               .outputs = {"y"},
               .attrs = attrs,
               .infer = infer,
               .gradient = [](GradientScope& g) -> std::vector<GraphTensor> {
                 return {g.add("soft_cap_backward", {g.dout(), g.output()}, g.attrs())};
               },
               .in_place = {{0, 0}},
               .doc = "cap * tanh(x / cap)"});
  register_op({.name = "soft_cap_backward",
               .inputs = {"dy", "y"},
               .outputs = {"dx"},
               .attrs = attrs,
               .infer = infer,
               .in_place = {{0, 0}},
               .doc = "dy * (1 - (y / cap)^2)"});
  register_kernel({.op = "soft_cap", .launch = forward});
  register_kernel({.op = "soft_cap_backward", .launch = backward});
#ifdef OWN_OP_CUDA
  register_soft_cap_cuda();
#endif
}

BluePrint soft_cap(double cap, std::source_location where) {
  return layer("soft_cap", {{"cap", cap}}, 1, where);
}
