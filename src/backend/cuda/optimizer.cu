// SPDX-License-Identifier: Apache-2.0
// sgd and adam over whole ranges: unscaling, clipping, decay, update and 16-bit copy in one pass.
#include "backend/cuda/optimizer_formulas.cuh"
#include "backend/cuda/optimizer_pass.cuh"

namespace tr::cuda::optimizer {
namespace {

void launch_sgd(const KernelArgs& args) {
  if (args.has_in(kFirstMoment)) {
    update_all(args, 1, sgd_of<1>(args.attrs()));
  } else {
    update_all(args, 1, sgd_of<0>(args.attrs()));
  }
}

void launch_adam(const KernelArgs& args) { update_all(args, 2, adam_of(args.attrs())); }

const KernelRegistration kSgd{simple_kernel("sgd", launch_sgd)};
const KernelRegistration kAdam{simple_kernel("adam", launch_adam)};

}  // namespace
}  // namespace tr::cuda::optimizer
