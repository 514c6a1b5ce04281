// SPDX-License-Identifier: Apache-2.0
// Kernels of every entry of the functor table, forward and backward, for all floating dtypes.
#include <string>
#include <vector>

#include "backend/cuda/map_functor.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda {
namespace {

template <typename Functor>
Functor functor_of(const Attrs& attrs) {
  return functors::make<Functor>(Functor::kHasAlpha ? attrs.f32("alpha") : 0.0f);
}

template <typename Functor>
void launch_forward(const KernelArgs& args) {
  map_forward(args, functor_of<Functor>(args.attrs()));
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  map_backward(args, functor_of<Functor>(args.attrs()));
}

struct RegisterAll {
  std::vector<KernelRegistration>& all;

  template <typename Functor>
  void operator()() const {
    const std::string name(Functor::kName);
    all.emplace_back(simple_kernel(name, launch_forward<Functor>, refuse_mixed));
    all.emplace_back(simple_kernel(name + "_backward", launch_backward<Functor>, refuse_mixed));
  }
};

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  functors::for_each(RegisterAll{all});
  return all;
}();

}  // namespace
}  // namespace tr::cuda
