// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/executor.h"
#include "graph/compiler.h"
#include "renaissance/algo/loss.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/task/simple_task.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

/// A model compiled for one batch of pictures: a training step with cross entropy, or a prediction.
/// Parameters, moments and buffers are read and written in the layout of memory; a Param is known
/// by its name, so that of an equal model will do.
class CompiledModel {
 public:
  struct Options {
    Mode mode = Mode::TRAIN;
    std::int64_t batch = 1;
    Shape picture;  // [H, W, C]
    float smoothing = 0;
    Optimizer optimizer = SGD();
    GraphOptions graph;
    TaskDevice device = {DeviceKind::CPU, 1};
    /// Which of the device's fused forms the passes get. Empty: all.
    std::function<bool(const std::string& op, const Attrs&)> offers;
  };
  CompiledModel(const BluePrint& model, const Options& options);
  CompiledModel(const CompiledModel&) = delete;
  CompiledModel& operator=(const CompiledModel&) = delete;

  const std::vector<Param>& params() const { return compiled_.arch.params; }

  void write(const Param& param, const Tensor& value);
  Tensor read(const Param& param);
  void write_moment(const Param& param, const Tensor& value);
  Tensor read_moment(const Param& param);
  /// lr, momentum and decay of the next step (decay of WEIGHTs alone).
  void set_rates(float lr, float momentum, float decay);

  /// One step; returns the mean loss.
  double step(const Tensor& pictures, const Tensor& labels);
  Tensor predict(const Tensor& pictures);

  Executor& executor() { return *executor_; }
  const CompileResult& compiled() const { return compiled_; }

 private:
  std::int64_t place(const Param& param, Role role) const;
  void write(std::int64_t place, const Tensor& value);
  Tensor read(const Param& param, std::int64_t place);

  Options options_;
  TuningTable tuning_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
  std::int64_t done_ = 0;
};

}  // namespace tr::test
