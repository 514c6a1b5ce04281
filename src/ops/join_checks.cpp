// SPDX-License-Identifier: Apache-2.0
// A step of several objectives is judged as one.
#include "core/check.h"
#include "core/format.h"
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Types;

constexpr std::size_t kMostChecks = 16;

std::vector<TensorType> infer(const Attrs&, Types in) {
  TR_CHECK(!in.empty() && in.size() % 2 == 0 && in.size() <= 2 * kMostChecks,
           "there are {} inputs, expected found_inf and grad_sumsq of 1 to {} checks", in.size(),
           kMostChecks);
  for (std::size_t i = 0; i < in.size(); i += 2) {
    ops::check_scalar("found_inf", in[i], DType::INT32);
    ops::check_scalar("grad_sumsq", in[i + 1], DType::FP32);
  }
  return {{Shape{}, DType::INT32}, {Shape{}, DType::FP32}};
}

const OpRegistration kJoinChecks{
    {.name = "join_checks",
     .inputs = {"checks..."},
     .outputs = {"found_inf", "grad_sumsq"},
     .infer = infer,
     .cost = ops::cost_per_element(2),
     .precision = Precision::HIGH,
     .doc = "Of several finite_checks: 1 if any found_inf is set; the sum of their grad_sumsq."}};

}  // namespace
}  // namespace tr
