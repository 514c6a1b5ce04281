// SPDX-License-Identifier: Apache-2.0
// Optimizers beside sgd and adam, by the formulas that both devices share.
#include "backend/cuda/optimizer_by_formula.cuh"
#include "backend/optimizer_attrs.h"

namespace tr::cuda::optimizer {
namespace {

void launch_lion(const KernelArgs& args) {
  update_by_formula(args, 1, formulas::lion_of(args.attrs()));
}
void launch_rmsprop(const KernelArgs& args) {
  formulas::with_rmsprop<FastMath>(args.attrs(),
                                   [&](const auto& f) { update_by_formula(args, 3, f); });
}
void launch_adagrad(const KernelArgs& args) {
  update_by_formula(args, 1, formulas::adagrad_of<FastMath>(args.attrs()));
}
void launch_lars(const KernelArgs& args) {
  formulas::with_lars(args.attrs(), [&](const auto& f) { update_adaptively(args, 1, f); });
}
void launch_lamb(const KernelArgs& args) {
  update_adaptively(args, 2, formulas::lamb_of<FastMath>(args.attrs()));
}

KernelDef adaptive_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch);
  def.workspace_bytes = adaptive_workspace_bytes;
  return def;
}

const KernelRegistration kLion{simple_kernel("lion", launch_lion)};
const KernelRegistration kRmsprop{simple_kernel("rmsprop", launch_rmsprop)};
const KernelRegistration kAdagrad{simple_kernel("adagrad", launch_adagrad)};
const KernelRegistration kLars{adaptive_kernel("lars", launch_lars)};
const KernelRegistration kLamb{adaptive_kernel("lamb", launch_lamb)};

}  // namespace
}  // namespace tr::cuda::optimizer
