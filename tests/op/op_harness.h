// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "renaissance/graph/attrs.h"
#include "renaissance/task/simple_task.h"
#include "renaissance/tensor/tensor.h"
#include "support/reference.h"

namespace tr::test {

/// A call that must throw an Error whose message has all `words`.
struct Refusal {
  std::string name;
  std::vector<Tensor> inputs;
  Attrs attrs;
  std::vector<std::string> words;
};

/// One op on given inputs. Everything that every op must hold is checked from this.
struct OpCase {
  std::string name;  // of the test: letters, digits and underscores
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;       // floating ones in FP32; an empty Tensor is a missing one
  Function forward;                 // first output in double, by the formula
  std::vector<int> differentiable;  // inputs that have a gradient
  std::vector<int> low;             // inputs that are cast to the tested dtype
  std::vector<DType> dtypes = {DType::FP32, DType::FP16, DType::BF16};
  std::int64_t summed = 1;  // longest sum of the op or of its gradient
  double scale = 1;         // bound of the summed terms
  int roundings = 1;        // of the first output to its dtype on a GPU
  /// How far each input may move by itself so that `forward` stays defined and smooth: what a
  /// random program adds to the inputs keeps below it.
  double room = 0.05;
  std::vector<Refusal> refusals;
};

// The claims, one function each, so that a deliberately wrong op can be shown to fail them.

/// The output equals the reference in double.
testing::AssertionResult forward_matches_reference(const OpCase& c, DType dtype,
                                                   TaskDevice device = {});
/// Every gradient equals central differences of the reference in double; inputs that are not
/// differentiable get none.
testing::AssertionResult gradient_matches_finite_differences(const OpCase& c, DType dtype,
                                                             TaskDevice device = {});
/// 1, 2, 3 and 5 compute threads give the same bytes, forward and backward.
testing::AssertionResult same_bytes_for_thread_counts(const OpCase& c, DType dtype);
/// The op with relu after it, launched as one graph, twice, and as two graphs, gives the same
/// bytes.
testing::AssertionResult parts_equal_whole(const OpCase& c, DType dtype, TaskDevice device = {});
/// Each of the case's wrong inputs is refused with its words.
testing::AssertionResult refuses_wrong_input(const OpCase& c, TaskDevice device = {});
/// Outputs and gradients of the device are the CPU's: each may be off by the tolerance, or has the
/// CPU's bytes if `exact`.
testing::AssertionResult equals_cpu(const OpCase& c, DType dtype, TaskDevice device, bool exact);
/// The op and its gradient as one graph give the same bytes launched as a whole, again, and node by
/// node; every byte of the results is written.
testing::AssertionResult captured_equals_eager(const OpCase& c, DType dtype, TaskDevice device);

/// Of an op with one input that doubles it: the ops of negative_control_test.cpp.
OpCase doubling_case(const std::string& op);

/// The case's inputs as they are tested for `dtype`.
std::vector<Tensor> inputs_for(const OpCase& c, DType dtype);
/// A gradient of the first output, of its type; none for the others.
std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs);

// All cases, by family.
std::vector<OpCase> elementwise_cases();
std::vector<OpCase> linear_cases();
std::vector<OpCase> shape_cases();
std::vector<OpCase> loss_cases();
std::vector<OpCase> conv_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> pooling_cases();
std::vector<OpCase> math_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> layout_cases();
std::vector<OpCase> sequence_cases();
std::vector<OpCase> all_cases();
/// Ops with draws, whose reference takes the mask of one launch (dropout_test.cpp).
std::vector<OpCase> drawn_cases();
// Too large for finite differences: they fill a device's grid more than once, or take paths of
// their own there.
std::vector<OpCase> large_elementwise_cases();
std::vector<OpCase> large_linear_cases();
std::vector<OpCase> large_shape_cases();
std::vector<OpCase> large_loss_cases();
std::vector<OpCase> large_conv_cases();
std::vector<OpCase> large_norm_cases();
std::vector<OpCase> large_pooling_cases();
std::vector<OpCase> large_math_cases();
std::vector<OpCase> large_reduction_cases();
std::vector<OpCase> large_layout_cases();
std::vector<OpCase> large_sequence_cases();
std::vector<OpCase> large_cases();

}  // namespace tr::test
