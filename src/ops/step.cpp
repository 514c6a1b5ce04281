// SPDX-License-Identifier: Apache-2.0
// The step's tail: communication, records, counters, loss scale.
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Types;

std::vector<TensorType> infer_all_reduce(const Attrs&, Types in) {
  ops::check_range("range", in[0]);
  return {};
}

std::vector<TensorType> infer_all_reduce_flag(const Attrs&, Types in) {
  ops::check_scalar("flag", in[0], DType::INT32);
  return {};
}

std::vector<TensorType> infer_record_step(const Attrs&, Types in) {
  ops::check_results(in[0]);
  ops::check_counters(in[1]);
  ops::check_scalar("loss_sum", in[2], DType::FP32);
  if (ops::given(in, 3))
    ops::check_same("correct", in[3], {Shape{2}, DType::INT32}, "top 1 and top 5");
  ops::check_optional_scalar("found_inf", in, 4, DType::INT32);
  ops::check_optional_scalar("grad_sumsq", in, 5, DType::FP32);
  ops::check_optional_scalar("loss_scale", in, 6, DType::FP32);
  return {};
}

std::vector<TensorType> infer_update_loss_scale(const Attrs& attrs, Types in) {
  ops::check_scalar("loss_scale", in[0], DType::FP32);
  ops::check_scalar("found_inf", in[1], DType::INT32);
  ops::check_counters(in[2]);
  ops::check_growth_interval(attrs);
  return {};
}

std::vector<TensorType> infer_advance_counters(const Attrs&, Types in) {
  ops::check_counters(in[0]);
  ops::check_optional_scalar("found_inf", in, 1, DType::INT32);
  return {};
}

Cost small_cost(const Attrs&, Types in, Types) { return {0, ops::bytes_moved(in.first(1), {})}; }

const OpRegistration kAllReduce{
    {.name = "all_reduce",
     .inputs = {"range"},
     .infer = infer_all_reduce,
     .cost = small_cost,
     .state_writes = {0},
     .precision = Precision::HIGH,
     .doc = "Sum over the ranks, in their order. torch.distributed.all_reduce"}};

const OpRegistration kAllReduceFlag{{.name = "all_reduce_flag",
                                     .inputs = {"flag"},
                                     .infer = infer_all_reduce_flag,
                                     .cost = small_cost,
                                     .state_writes = {0},
                                     .precision = Precision::HIGH,
                                     .doc = "Maximum over the ranks."}};

const OpRegistration kRecordStep{
    {.name = "record_step",
     .inputs = {"results", "counters", "loss_sum", "correct", "found_inf", "grad_sumsq",
                "loss_scale"},
     .num_optional_inputs = 4,
     .infer = infer_record_step,
     .cost = small_cost,
     .state_writes = {0},
     .precision = Precision::HIGH,
     .doc = "Writes the row counters[row] % capacity of results (step_tables.h)."}};

const OpRegistration kUpdateLossScale{
    {.name = "update_loss_scale",
     .inputs = {"loss_scale", "found_inf", "counters"},
     .attrs = {{"growth_interval", std::int64_t{0}, false,
                "good steps in a row that double it; 0: never"}},
     .infer = infer_update_loss_scale,
     .cost = small_cost,
     .state_writes = {0},
     .precision = Precision::HIGH,
     .doc = "Halved after an overflow, not below 1. torch.amp.GradScaler(backoff_factor=0.5)"}};

const OpRegistration kAdvanceCounters{
    {.name = "advance_counters",
     .inputs = {"counters", "found_inf"},
     .attrs = {{"last_micro", true, true, "of the optimizer step"}, {"training", true, true, ""}},
     .num_optional_inputs = 1,
     .infer = infer_advance_counters,
     .cost = small_cost,
     .state_writes = {0},
     .precision = Precision::HIGH,
     .doc = "Advances row; with last_micro step; with training updates or skipped, and the rows of "
            "good and bad "
            "steps."}};

}  // namespace
}  // namespace tr
