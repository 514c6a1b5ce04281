// SPDX-License-Identifier: Apache-2.0
#include "ops/loss_rules.h"

#include "core/check.h"
#include "core/format.h"

namespace tr::ops {
namespace {

bool is_class_number(DType dtype) { return dtype == DType::INT32 || dtype == DType::INT64; }

void check_one_a_sample(const TensorType& labels, const TensorType& scores) {
  check_shape("labels", labels, Shape{scores.shape[0]}, "a class number a sample");
}

}  // namespace

void check_scores(std::string_view name, const TensorType& type) {
  check_floating(name, type);
  TR_CHECK(type.shape.rank() == 2, "{} has shape {}, expected [N, C] (flatten() an image first)",
           name, type.shape);
}

void check_class_numbers(const TensorType& labels, const TensorType& scores) {
  TR_CHECK(is_class_number(labels.dtype),
           "labels has dtype {}, expected int32 or int64 (class numbers)", labels.dtype);
  check_one_a_sample(labels, scores);
}

void check_labels(const TensorType& labels, const TensorType& scores) {
  if (is_floating(labels.dtype)) {
    check_same("labels", labels, {scores.shape, DType::FP32}, "probabilities, one a class");
    return;
  }
  TR_CHECK(is_class_number(labels.dtype),
           "labels has dtype {}, expected int32 or int64 (class numbers) or fp32 (probabilities)",
           labels.dtype);
  check_one_a_sample(labels, scores);
}

void check_smoothing(const Attrs& attrs) {
  const double s = attrs.f64("label_smoothing");
  TR_CHECK(s >= 0 && s <= 1, "label_smoothing is {}, expected 0 <= label_smoothing <= 1", s);
}

}  // namespace tr::ops
