// SPDX-License-Identifier: Apache-2.0
// Whole-range ops: all parameters of a role at once, over the segment table. docs/execution.md has
// the semantics.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "ops/optimizer_def.h"

namespace tr {
namespace {

using ops::Types;

std::vector<TensorType> infer_sgd(const Attrs& attrs, Types in) {
  ops::check_optimizer_inputs(attrs, in, 1);
  ops::check_sgd(attrs, in, ops::kFirstMoment);
  return {};
}

std::vector<TensorType> infer_adam(const Attrs& attrs, Types in) {
  ops::check_optimizer_inputs(attrs, in, 2);
  ops::check_adam(attrs, in, ops::kFirstMoment);
  return {};
}

void check_group(const Attrs& attrs, Types in) {
  const std::int64_t columns = in[3].shape[1], group = attrs.i64("group");
  TR_CHECK(group >= 0 && kFloatHeader + kGroupColumns * (group + 1) <= columns,
           "group is {}, expected one of the {} in step_floats", group,
           (columns - kFloatHeader) / kGroupColumns);
}

std::vector<TensorType> infer_sgd_cycle(const Attrs& attrs, Types in) {
  ops::check_optimizer_inputs(attrs, in, 1);
  ops::check_num_moments(in, ops::kFirstMoment, 1, 1);
  return {};
}

std::vector<TensorType> infer_adam_cycle(const Attrs& attrs, Types in) {
  ops::check_optimizer_inputs(attrs, in, 2);
  Attrs adam = attrs;
  adam.set("beta1", 0.0).set("beta2", 0.0);
  ops::check_adam(adam, in, ops::kFirstMoment);
  check_group(attrs, in);
  return {};
}

OpDef sgd_def() {
  OpDef def = ops::optimizer_def("sgd", 1, 6);
  def.num_optional_inputs = 2;
  def.attrs.push_back({"momentum", 0.0, false, "0: no moment1"});
  def.attrs.push_back({"nesterov", false, false, ""});
  def.attrs.push_back({"decoupled", false, false, "decay outside the gradient: w *= 1 - lr wd"});
  def.infer = infer_sgd;
  def.doc =
      "g += wd w; m = momentum m + g; w -= lr (nesterov ? g + momentum m : m). torch.optim.SGD";
  return def;
}

OpDef adam_def() {
  OpDef def = ops::optimizer_def("adam", 2, 14);
  def.attrs.push_back({"beta1", 0.9, false, ""});
  def.attrs.push_back({"beta2", 0.999, false, ""});
  def.attrs.push_back({"eps", 1e-8, false, ""});
  def.attrs.push_back({"decoupled", false, false, "AdamW"});
  def.infer = infer_adam;
  def.doc =
      "m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= lr (m / (1 - b1^t)) / (sqrt(v / (1 - "
      "b2^t)) + eps). "
      "torch.optim.Adam, with `decoupled` torch.optim.AdamW";
  return def;
}

OpDef sgd_cycle_def() {
  OpDef def = ops::optimizer_def("sgd_cycle", 1, 6);
  def.attrs.push_back({"nesterov", false, false, ""});
  def.attrs.push_back({"decoupled", false, false, "decay outside the gradient: w *= 1 - lr wd"});
  def.infer = infer_sgd_cycle;
  def.doc =
      "sgd with the momentum of the parameter group's column of the step's row. torch.optim.SGD "
      "under OneCycleLR(cycle_momentum), or with a momentum of each group";
  return def;
}

OpDef adam_cycle_def() {
  OpDef def = ops::optimizer_def("adam_cycle", 2, 14);
  def.attrs.push_back({"group", std::int64_t{0}, false,
                       "parameter group whose betas' powers are made once for all parts of a "
                       "launch, those of others where they are needed"});
  def.attrs.push_back({"eps", 1e-8, false, ""});
  def.attrs.push_back({"decoupled", false, false, "AdamW"});
  def.infer = infer_adam_cycle;
  def.doc =
      "adam with the betas of the parameter group's column of the step's row, in 1 - b1^t and 1 - "
      "b2^t too. torch.optim.Adam under OneCycleLR(cycle_momentum), or with betas of each group";
  return def;
}

const OpRegistration kSgd{sgd_def()};
const OpRegistration kAdam{adam_def()};
const OpRegistration kSgdCycle{sgd_cycle_def()};
const OpRegistration kAdamCycle{adam_cycle_def()};

const OpRegistration kAccumulate{
    {.name = "accumulate_grads",
     .inputs = {"gradients", "accumulated"},
     .attrs = {{"first", true, true, "of the step's micro-batches"}, {"last", true, true, ""}},
     .infer =
         [](const Attrs&, Types in) {
           ops::check_range("gradients", in[0]);
           ops::check_range("accumulated", in[1], &in[0]);
           return std::vector<TensorType>{};
         },
     .cost = ops::range_cost(1, {1}),
     .state_writes = {0, 1},
     .precision = Precision::HIGH,
     .doc = "not last: accumulated = first ? g : accumulated + g. last: g = accumulated + g."}};

const OpRegistration kFiniteCheck{
    {.name = "finite_check",
     .inputs = {"gradients"},
     .outputs = {"found_inf", "grad_sumsq"},
     .infer =
         [](const Attrs&, Types in) {
           ops::check_range("gradients", in[0]);
           return std::vector<TensorType>{{Shape{}, DType::INT32}, {Shape{}, DType::FP32}};
         },
     .cost = ops::cost_per_input_element(3),
     .precision = Precision::HIGH,
     .doc = "found_inf = 1 if any element is not finite; grad_sumsq = sum of squares of the "
            "(scaled) gradient."}};

const OpRegistration kEma{{.name = "ema_update",
                           .inputs = {"ema", "weights", "found_inf"},
                           .attrs = {{"decay", 0.999, true, "weight of the past, 0 to 1"}},
                           .infer =
                               [](const Attrs& attrs, Types in) {
                                 ops::check_range("ema", in[0]);
                                 ops::check_range("weights", in[1], &in[0]);
                                 ops::check_scalar("found_inf", in[2], DType::INT32);
                                 const double decay = attrs.f64("decay");
                                 TR_CHECK(decay > 0 && decay < 1,
                                          "decay is {}, expected 0 < decay < 1", decay);
                                 return std::vector<TensorType>{};
                               },
                           .cost = ops::range_cost(3, {0}),
                           .state_writes = {0},
                           .precision = Precision::HIGH,
                           .doc = "e = decay e + (1 - decay) w unless found_inf. "
                                  "torch.optim.swa_utils.get_ema_multi_avg_fn"}};

const OpRegistration kCommitBuffers{{.name = "commit_buffers",
                                     .inputs = {"buffer", "buffer_next", "found_inf"},
                                     .infer =
                                         [](const Attrs&, Types in) {
                                           ops::check_range("buffer", in[0]);
                                           ops::check_range("buffer_next", in[1], &in[0]);
                                           ops::check_scalar("found_inf", in[2], DType::INT32);
                                           return std::vector<TensorType>{};
                                         },
                                     .cost = ops::range_cost(0, {0}),
                                     .state_writes = {0},
                                     .precision = Precision::HIGH,
                                     .doc = "buffer = buffer_next unless found_inf."}};

}  // namespace
}  // namespace tr
