// SPDX-License-Identifier: Apache-2.0
// Kernels of every entry of the functor table, forward and backward, for all floating dtypes.
#include "backend/elementwise_functors.h"

#include <map>
#include <string>
#include <vector>

#include "backend/cpu/activation_rows.h"
#include "backend/cpu/map_kernels.h"

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
  map_forward(args, functors::make<Functor>(alpha_of<Functor>(args.attrs())));
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  map_backward(args, functors::make<Functor>(alpha_of<Functor>(args.attrs())));
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
