// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "ops/loss_rules.h"

namespace tr {
namespace {

using ops::Types;

std::vector<TensorType> infer(const Attrs&, Types in) {
  ops::check_scores("logits", in[0]);
  ops::check_class_numbers(in[1], in[0]);
  const std::int64_t classes = in[0].shape[1];
  ops::check_same("matrix", in[2], {Shape{classes, classes}, DType::INT32},
                  "a row a label, a column a prediction");
  return {};
}

const OpRegistration kConfusionMatrix{
    {.name = "confusion_matrix",
     .inputs = {"logits", "labels", "matrix"},
     .infer = infer,
     .cost = ops::cost_per_input_element(1),
     .state_writes = {2},
     .precision = Precision::HIGH,
     .doc = "matrix[label, class of the largest score] += 1 for each sample; of equal scores the "
            "lower class is the larger; samples with a NaN score or a label outside the classes "
            "are not counted."}};

}  // namespace
}  // namespace tr
