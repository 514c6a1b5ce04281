// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/compiler.h"

namespace tr::test {

/// The articles' loss, written as nodes.
inline LossSpec cross_entropy(double smoothing = 0) {
  LossSpec loss;
  loss.name = "CrossEntropyLoss";
  loss.fields = {"label"};
  loss.classification = true;
  loss.build = [smoothing](GraphBuilder& builder, const LossOperands& operands) {
    const TensorId logp = builder.add("log_softmax", {operands.outputs[0]});
    return builder.add("nll", {logp, operands.field("label")}, {{"label_smoothing", smoothing}});
  };
  return loss;
}

inline const std::map<std::string, TensorType> kDigitFields = {
    {"image", {Shape{28, 28, 1}, DType::FP32}}, {"label", {Shape{}, DType::INT32}}};

inline VariantKey variant(Mode mode, std::int64_t batch,
                          const std::map<std::string, TensorType>& sample_fields,
                          MicroStep micro = {}) {
  VariantKey key;
  key.mode = mode;
  key.batch = batch;
  key.micro = micro;
  for (const auto& [name, type] : sample_fields)
    key.fields[name] = {type.shape.prepend(batch), type.dtype};
  key.name = std::string(name_of(mode));
  return key;
}

/// A request for one variant of `model` with plain SGD.
inline CompileRequest request_for(const BluePrint& model,
                                  const std::map<std::string, TensorType>& fields,
                                  std::vector<VariantKey> variants) {
  CompileRequest request;
  request.model = model;
  request.sample_fields = fields;
  request.loss = cross_entropy();
  request.optimizer = {"sgd", {}, 0};
  request.variants = std::move(variants);
  return request;
}

inline std::vector<std::string> ops_of(const LoweredGraph& graph) {
  std::vector<std::string> ops;
  for (const LoweredNode& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

inline int count_op(const LoweredGraph& graph, const std::string& op) {
  int count = 0;
  for (const LoweredNode& node : graph.nodes) count += node.op == op;
  return count;
}

/// Text of the error that `f` throws; "" if it throws none.
template <typename E, typename F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

}  // namespace tr::test
