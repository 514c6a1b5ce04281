// SPDX-License-Identifier: Apache-2.0
// sgd and adam over whole ranges: unscaling, clipping, decay, update and 16-bit copy in one pass.
#include "backend/cuda/cycled_optimizers.cuh"
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

void launch_sgd_cycle(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  update_all(args, 1, CycledSgd{attrs.flag("nesterov"), attrs.flag("decoupled")});
}

void launch_adam_cycle(const KernelArgs& args) {
  const Attrs& attrs = args.attrs();
  update_all(args, 2,
             CycledAdam{int(attrs.i64("group")), attrs.f32("eps"), attrs.flag("decoupled")});
}

const KernelRegistration kSgd{simple_kernel("sgd", launch_sgd)};
const KernelRegistration kAdam{simple_kernel("adam", launch_adam)};
const KernelRegistration kSgdCycle{simple_kernel("sgd_cycle", launch_sgd_cycle)};
const KernelRegistration kAdamCycle{simple_kernel("adam_cycle", launch_adam_cycle)};

}  // namespace
}  // namespace tr::cuda::optimizer
