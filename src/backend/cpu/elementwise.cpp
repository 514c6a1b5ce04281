// SPDX-License-Identifier: Apache-2.0
// Kernels of every entry of the functor table, forward and backward, for all floating dtypes.
#include "backend/elementwise_functors.h"

#include <map>
#include <string>
#include <vector>

#include "backend/cpu/activation_rows.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

template <typename Functor>
void forward_rows(const float* x, float* y, std::int64_t n, float alpha) {
  const Functor f = functors::make<Functor>(alpha);
  for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <typename Functor>
void backward_rows(const float* saved, const float* dy, float* dx, std::int64_t n, float alpha) {
  const Functor f = functors::make<Functor>(alpha);
  for (std::int64_t i = 0; i < n; ++i) dx[i] = f.grad(saved[i], dy[i]);
}

template <typename Functor>
float alpha_of(const Attrs& attrs) {
  return Functor::kHasAlpha ? attrs.f32("alpha") : 0.0f;
}

template <typename Functor>
void launch_forward(const KernelArgs& args) {
  const float alpha = alpha_of<Functor>(args.attrs());
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t count = args.in_type(0).shape.num_elements();
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      float widened[kRowBlock], result[kRowBlock];
      for (std::int64_t i = begin; i < end; i += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, end - i);
        float* into = result_floats(y + i, result);
        forward_rows<Functor>(as_floats(x + i, widened, n), into, n, alpha);
        put_floats(y + i, into, n);
      }
    });
  });
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  const float alpha = alpha_of<Functor>(args.attrs());
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    const T* saved = args.in<T>(1);
    T* dx = args.out<T>(0);
    const std::int64_t count = args.in_type(0).shape.num_elements();
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      float wide_dy[kRowBlock], wide_saved[kRowBlock], result[kRowBlock];
      for (std::int64_t i = begin; i < end; i += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, end - i);
        float* into = result_floats(dx + i, result);
        backward_rows<Functor>(as_floats(saved + i, wide_saved, n), as_floats(dy + i, wide_dy, n),
                               into, n, alpha);
        put_floats(dx + i, into, n);
      }
    });
  });
}

/// All inputs and outputs share one floating dtype.
std::string refuse_mixed(const KernelQuery& query) {
  for (const TensorType& type : query.in) {
    if (type.dtype != query.in.front().dtype) {
      return fmt::format("the inputs are {} and {}, expected one dtype", query.in.front().dtype,
                         type.dtype);
    }
  }
  return refuse_unless_floating(query);
}

using ActivationMap = std::map<std::string, ActivationRows, std::less<>>;

const ActivationMap& activations() {
  static const ActivationMap map = [] {
    ActivationMap all;
    functors::for_each([&]<typename Functor>() {
      all[std::string(Functor::kName)] = {forward_rows<Functor>, backward_rows<Functor>};
    });
    return all;
  }();
  return map;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each([&]<typename Functor>() {
    const std::string name(Functor::kName);
    all.emplace_back(simple_kernel(name, launch_forward<Functor>, refuse_mixed));
    all.emplace_back(simple_kernel(name + "_backward", launch_backward<Functor>, refuse_mixed));
  });
  return all;
}();

}  // namespace

const ActivationRows* find_activation(std::string_view name) {
  const auto found = activations().find(name);
  return found == activations().end() ? nullptr : &found->second;
}

}  // namespace tr::cpu
