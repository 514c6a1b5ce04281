// SPDX-License-Identifier: Apache-2.0
#include "op/op_harness.h"

#include <algorithm>

#include "core/format.h"
#include "graph/op_def.h"
#include "renaissance/task/simple_task.h"
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

// A gradient of the first output, of its type.
std::vector<Tensor> output_gradients(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> douts(outputs.size());
  const Tensor& y = outputs.front();
  douts[0] = Tensor::uniform(y.shape(), -1, 1, kGradientSeed, y.dtype());
  return douts;
}

struct Results {
  std::vector<Tensor> outputs, gradients;
};

Results run_both(const OpCase& c, const std::vector<Tensor>& inputs, int num_threads) {
  const TaskDevice device{DeviceKind::CPU, num_threads};
  Results results{run_op(c.op, inputs, c.attrs, device), {}};
  if (!c.differentiable.empty()) {
    results.gradients = grad_op(c.op, inputs, c.attrs, output_gradients(results.outputs), device);
  }
  return results;
}

}  // namespace

std::vector<Tensor> inputs_for(const OpCase& c, DType dtype) {
  std::vector<Tensor> inputs = c.inputs;
  for (int i : c.low) {
    if (!inputs[std::size_t(i)].empty()) inputs[std::size_t(i)] = inputs[std::size_t(i)].to(dtype);
  }
  return inputs;
}

testing::AssertionResult forward_matches_reference(const OpCase& c, DType dtype) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const Tensor y = run_op(c.op, inputs, c.attrs).front();
  const Array want = on_present(c, inputs)(arrays_of(inputs));
  return is_close(y, want, tolerance(y.dtype(), c.summed, c.scale), "y");
}

testing::AssertionResult gradient_matches_finite_differences(const OpCase& c, DType dtype) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const std::vector<Tensor> douts = output_gradients(run_op(c.op, inputs, c.attrs));
  const std::vector<Tensor> gradients = grad_op(c.op, inputs, c.attrs, douts);
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
    // What a kernel saved for the gradient was rounded to the dtype of the output.
    const DType worst = unit_roundoff(douts[0].dtype()) > unit_roundoff(gradients[i].dtype())
                            ? douts[0].dtype()
                            : gradients[i].dtype();
    const auto close = is_close(gradients[i], want, tolerance(worst, c.summed, c.scale), name);
    if (!close) return close;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bytes_for_thread_counts(const OpCase& c, DType dtype) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const Results one = run_both(c, inputs, 1);
  for (int threads : {2, 3, 5}) {
    const Results many = run_both(c, inputs, threads);
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

testing::AssertionResult parts_equal_whole(const OpCase& c, DType dtype) {
  const std::vector<Tensor> inputs = inputs_for(c, dtype);
  const std::vector<Tensor> outputs = run_op(c.op, inputs, c.attrs);
  SimpleTask task;
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

testing::AssertionResult refuses_wrong_input(const OpCase& c) {
  for (const Refusal& wrong : c.refusals) {
    const auto refused = refuses([&] { run_op(c.op, wrong.inputs, wrong.attrs); }, wrong.words);
    if (!refused) return testing::AssertionFailure() << wrong.name << ": " << refused.message();
  }
  return testing::AssertionSuccess();
}

std::vector<OpCase> all_cases() {
  std::vector<OpCase> cases;
  for (auto family : {elementwise_cases, linear_cases, shape_cases, loss_cases}) {
    for (OpCase& c : family()) cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace tr::test
