// SPDX-License-Identifier: Apache-2.0
#include "op/op_harness.h"

#include <algorithm>

#include "core/format.h"
#include "graph/op_def.h"
#include "op/op_launch.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr std::uint64_t kGradientSeed = 77;

Function on_present(const OpCase& c, const std::vector<Tensor>& inputs) {
  // Missing optional inputs are left out of what the reference sees.
  if (std::none_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.empty(); })) {
    return c.forward;
  }
  return [&c, inputs](const std::vector<Array>& all) {
    std::vector<Array> present;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].empty()) present.push_back(all[i]);
    }
    return c.forward(present);
  };
}

std::vector<Array> arrays_of(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(array_of(tensor));
  return arrays;
}

struct Results {
  std::vector<Tensor> outputs, gradients;
};

Results run_both(const OpCase& c, const std::vector<Tensor>& inputs, TaskDevice device) {
  Results results{run_op(c.op, inputs, c.attrs, device), {}};
  if (!c.differentiable.empty()) {
    results.gradients = grad_op(c.op, inputs, c.attrs, output_gradients(results.outputs), device);
  }
  return results;
}

// What a kernel saved for the gradient was rounded to the dtype of the output.
DType worse(DType a, DType b) { return unit_roundoff(a) > unit_roundoff(b) ? a : b; }

}  // namespace

std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> douts(outputs.size());
  const Tensor& y = outputs.front();
  douts[0] = Tensor::uniform(y.shape(), -1, 1, kGradientSeed, y.dtype());
  return douts;
}

OpCase doubling_case(const std::string& op) {
  OpCase c{.name = op, .op = op};
  c.inputs = {Tensor::uniform({5, 9}, -1, 1, 1)};
  c.forward = [](const std::vector<Array>& in) {
    Array y = in[0];
    for (double& value : y.values) value *= 2;
    return y;
  };
  c.differentiable = {0};
  c.refusals = {{"integers", {Tensor::zeros({3}, DType::INT32)}, {}, {"int32"}}};
  return c;
}

std::vector<Tensor> inputs_for(const OpCase& c, DType dtype) {
  std::vector<Tensor> inputs = c.inputs;
  for (int i : c.low) {
    if (!inputs[std::size_t(i)].empty()) inputs[std::size_t(i)] = inputs[std::size_t(i)].to(dtype);
  }
  return inputs;
}

testing::AssertionResult forward_matches_reference(const OpCase& c, DType dtype,
                                                   TaskDevice device) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const Tensor y = run_op(c.op, inputs, c.attrs, device).front();
  const Array want = on_present(c, inputs)(arrays_of(inputs));
  Tolerance allowed = tolerance(y.dtype(), c.summed, c.scale);
  if (device.kind == DeviceKind::CUDA) allowed.rtol *= c.roundings;
  return is_close(y, want, allowed, "y");
}

testing::AssertionResult gradient_matches_finite_differences(const OpCase& c, DType dtype,
                                                             TaskDevice device) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const std::vector<Tensor> douts = output_gradients(run_op(c.op, inputs, c.attrs, device));
  const std::vector<Tensor> gradients = grad_op(c.op, inputs, c.attrs, douts, device);
  const Function f = on_present(c, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool wanted = std::find(c.differentiable.begin(), c.differentiable.end(), int(i)) !=
                        c.differentiable.end();
    const std::string name = fmt::format("gradient of input {}", i);
    if (!wanted || inputs[i].empty()) {
      if (gradients[i].empty()) continue;
      return testing::AssertionFailure() << name << " exists: " << gradients[i].summary();
    }
    if (gradients[i].empty()) return testing::AssertionFailure() << name << " is missing";
    const Array want = finite_difference(f, arrays_of(inputs), i, array_of(douts[0]));
    const DType worst = worse(douts[0].dtype(), gradients[i].dtype());
    const auto close = is_close(gradients[i], want, tolerance(worst, c.summed, c.scale), name);
    if (!close) return close;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bytes_for_thread_counts(const OpCase& c, DType dtype) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const Results one = run_both(c, inputs, {DeviceKind::CPU, 1});
  for (int threads : {2, 3, 5}) {
    const Results many = run_both(c, inputs, {DeviceKind::CPU, threads});
    for (std::size_t i = 0; i < one.outputs.size(); ++i) {
      const auto same = same_bytes(many.outputs[i], one.outputs[i],
                                   fmt::format("output {} with {} threads", i, threads));
      if (!same) return same;
    }
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
      if (one.gradients[i].empty()) continue;
      const auto same = same_bytes(many.gradients[i], one.gradients[i],
                                   fmt::format("gradient {} with {} threads", i, threads));
      if (!same) return same;
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult parts_equal_whole(const OpCase& c, DType dtype, TaskDevice device) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const std::vector<Tensor> outputs = run_op(c.op, inputs, c.attrs, device);
  if (!is_floating(outputs.front().dtype())) return testing::AssertionSuccess();  // no relu of it
  SimpleTask task(device);
  OpCall call{c.op, {}, {}, c.attrs};
  for (const Tensor& input : inputs) {
    call.inputs.push_back(input.empty() ? DTensor{} : task.alloc(input.shape(), input.dtype()));
  }
  for (const Tensor& output : outputs) {
    call.outputs.push_back(task.alloc(output.shape(), output.dtype()));
  }
  const Tensor& y = outputs.front();
  const DTensor z = task.alloc(y.shape(), y.dtype());
  task.finalize_memory();
  task.add_graph("first", {call});
  for (const std::string after : {"relu", "neg"}) {
    const OpCall second{after, {call.outputs[0]}, {z}, {}};
    task.add_graph("whole " + after, {call, second});
    task.add_graph(after, {second});
  }
  task.compile();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].empty()) task.transfer(inputs[i], call.inputs[i]);
  }
  const auto result_of = [&](const std::vector<std::string>& graphs) {
    task.fill(z, -1);
    for (const std::string& graph : graphs) task.run(graph);
    return task.fetch(z);
  };
  for (const std::string after : {"relu", "neg"}) {
    const Tensor whole = result_of({"whole " + after});
    const auto again = same_bytes(result_of({"whole " + after}), whole, "second launch");
    if (!again) return again;
    const auto parts = same_bytes(result_of({"first", after}), whole, "launch in parts");
    if (!parts) return parts;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult refuses_wrong_input(const OpCase& c, TaskDevice device) {
  for (const Refusal& wrong : c.refusals) {
    const auto refused =
        refuses([&] { run_op(c.op, wrong.inputs, wrong.attrs, device); }, wrong.words);
    if (!refused) return testing::AssertionFailure() << wrong.name << ": " << refused.message();
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult equals_cpu(const OpCase& c, DType dtype, TaskDevice device, bool exact) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const Results want = run_both(c, inputs, {}), got = run_both(c, inputs, device);
  const DType of_y = want.outputs.front().dtype();
  const auto compare = [&](const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                           const char* what) -> testing::AssertionResult {
    for (std::size_t i = 0; i < b.size(); ++i) {
      const std::string name = fmt::format("{} {}", what, i);
      if (a[i].empty() != b[i].empty()) {
        return testing::AssertionFailure() << name << " exists on one device alone";
      }
      if (b[i].empty()) continue;
      Tolerance both = tolerance(worse(of_y, b[i].dtype()), c.summed, c.scale);
      both.atol *= 2;
      both.rtol *= 2;
      const auto close = exact ? same_bytes(a[i], b[i], name) : is_close(a[i], b[i], both, name);
      if (!close) return close;
    }
    return testing::AssertionSuccess();
  };
  const auto outputs = compare(got.outputs, want.outputs, "output");
  return outputs ? compare(got.gradients, want.gradients, "gradient") : outputs;
}

testing::AssertionResult captured_equals_eager(const OpCase& c, DType dtype, TaskDevice device) {
  OpLaunch launch(c, dtype, device);
  const std::vector<Tensor> captured = launch.captured(), again = launch.captured();
  const std::vector<Tensor> eager = launch.eager();
  const std::vector<Tensor> alone = run_both(c, inputs_for(c, dtype), device).outputs;
  for (std::size_t i = 0; i < captured.size(); ++i) {
    if (captured[i].empty()) continue;
    const auto same = same_bytes(again[i], captured[i], fmt::format("result {}, again", i));
    if (!same) return same;
    const auto single = same_bytes(eager[i], captured[i], fmt::format("result {}, eager", i));
    if (!single) return single;
  }
  // Results begin with the outputs: what was NaN before the launch is now a value.
  for (std::size_t i = 0; i < alone.size(); ++i) {
    const auto whole = same_bytes(captured[i], alone[i], fmt::format("output {}, by run_op", i));
    if (!whole) return whole;
  }
  return testing::AssertionSuccess();
}

namespace {

std::vector<OpCase> joined(std::initializer_list<std::vector<OpCase> (*)()> families) {
  std::vector<OpCase> cases;
  for (auto family : families) {
    for (OpCase& c : family()) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace

std::vector<OpCase> all_cases() {
  return joined({elementwise_cases, linear_cases, shape_cases, loss_cases, conv_cases, norm_cases,
                 pooling_cases, math_cases, reduction_cases, layout_cases, sequence_cases});
}

std::vector<OpCase> large_cases() {
  return joined({large_elementwise_cases, large_linear_cases, large_shape_cases, large_loss_cases,
                 large_conv_cases, large_norm_cases, large_pooling_cases, large_math_cases,
                 large_reduction_cases, large_layout_cases, large_sequence_cases});
}

}  // namespace tr::test
