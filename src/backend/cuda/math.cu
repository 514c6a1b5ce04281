// SPDX-License-Identifier: Apache-2.0
// Kernels of every entry of the table in backend/math_functors.h.
#include "backend/math_functors.h"

#include <string>
#include <vector>

#include "backend/cuda/map_functor.cuh"
#include "graph/op_def.h"

namespace tr::cuda {
namespace {

/// The attributes in the order of the op's row, which is that of the functor's fields.
template <typename F>
F functor_of(const Attrs& attrs) {
  float values[2] = {0, 0};
  if constexpr (F::kNumAttrs > 0) {
    const std::vector<AttrSpec>& specs = OpRegistry::instance().get(F::kName).attrs;
    for (std::size_t i = 0; i < specs.size(); ++i) values[i] = attrs.f32(specs[i].name);
  }
  return functors::make_math<F>(values[0], values[1]);
}

template <typename F>
void launch_forward(const KernelArgs& args) {
  map_forward(args, functor_of<F>(args.attrs()));
}

template <typename F>
void launch_backward(const KernelArgs& args) {
  map_backward(args, functor_of<F>(args.attrs()));
}

struct RegisterAll {
  std::vector<KernelRegistration>& all;

  template <typename F>
  void operator()() const {
    const std::string name(F::kName);
    all.emplace_back(simple_kernel(name, launch_forward<F>, refuse_mixed));
    all.emplace_back(simple_kernel(name + "_backward", launch_backward<F>, refuse_mixed));
  }
};

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each_math(RegisterAll{all});
  return all;
}();

}  // namespace
}  // namespace tr::cuda
