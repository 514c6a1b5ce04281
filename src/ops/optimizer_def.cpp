// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer_def.h"

#include <string>

#include "core/format.h"

namespace tr::ops {

void check_optimizer_inputs(const Attrs& attrs, Types in, std::size_t num_moments) {
  check_update_inputs(attrs, in);
  check_scalar("found_inf", in[kFoundInf], DType::INT32);
  check_scalar("grad_sumsq", in[kGradSumsq], DType::FP32);
  check_weight_cast(in, kFirstMoment + num_moments);
}

CostRule range_cost(int flops, std::vector<std::size_t> written,
                    std::vector<std::size_t> read_again) {
  written.insert(written.end(), read_again.begin(), read_again.end());
  return [flops, moved = std::move(written)](const Attrs&, Types in, Types out) {
    std::int64_t bytes = bytes_moved(in, out);
    for (const std::size_t i : moved) bytes += given(in, i) ? bytes_of(in[i]) : 0;
    return Cost{flops * in[0].shape.num_elements(), bytes};
  };
}

OpDef optimizer_def(const char* name, int num_moments, int flops,
                    std::vector<std::size_t> read_again) {
  OpDef def;
  def.name = name;
  def.inputs = {"weights",  "gradients",  "segments",  "step_floats",
                "counters", "loss_scale", "found_inf", "grad_sumsq"};
  def.num_optional_inputs = 1;
  def.state_writes = {int(kWeights)};
  std::vector<std::size_t> written = {kWeights};
  for (int i = 0; i <= num_moments; ++i) {
    def.inputs.push_back(i < num_moments ? fmt::format("moment{}", i + 1) : "weight_cast");
    def.state_writes.push_back(int(kFirstMoment) + i);
    written.push_back(kFirstMoment + std::size_t(i));
  }
  def.attrs = {{"clip_norm", 0.0, false, "largest global norm of the gradient; 0: off"},
               {"clip_value", 0.0, false, "largest absolute value of its elements; 0: off"}};
  def.cost = range_cost(flops, std::move(written), std::move(read_again));
  def.precision = Precision::HIGH;
  return def;
}

}  // namespace tr::ops
