// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/executor.h"
#include "bench_report.h"
#include "graph/compiler.h"
#include "renaissance/tensor/safetensors.h"

namespace tr::bench {

/// Columns of a parameter group in the step's table.
struct GroupRates {
  float lr = 0;
  float decay = 0;
  float momentum = 0;
};

/// A compiled training step on the CPU with its memory, set to a start that a peer shares:
/// parameters by their names in files (what is missing begins at its fill value), batches "x"
/// [B, N, ...] and labels "y" [B, N].
class TrainingStep {
 public:
  /// `request` has one variant, "train", with fields image and label.
  TrainingStep(const SafetensorsFile& start, const CompileRequest& request,
               std::vector<GroupRates> rates, int threads);

  void reset();
  void run();
  /// Mean loss of the last step. @throws InvalidArgument  a gradient was not finite.
  double loss();
  /// The loss of step `steps` from here.
  double loss_after(int steps);
  /// Median milliseconds of `steps` steps, after `warm_up` that are not counted.
  double turn_ms(int steps, int warm_up);
  /// Prints the time of each node.
  void print_profile(int steps);

  Executor& executor() { return *executor_; }
  double compile_ms() const { return compile_ms_; }

 private:
  void write(const std::string& name, const void* from, std::size_t bytes);
  void write_param(std::size_t param, const Tensor& value);

  const SafetensorsFile& start_;
  CompileRequest request_;
  std::vector<GroupRates> rates_;
  TuningTable tuning_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
  std::vector<Tensor> images_, labels_;
  std::int64_t done_ = 0;
  double compile_ms_ = 0;
};

/// PyTorch, if it was asked for.
struct Peer {
  std::unique_ptr<PeerProcess> process;
  std::string name;
};
/// Starts bench/peers/`program`, which reads `start` from a file of its own, then `arguments`.
Peer start_peer(const std::string& python, const std::string& program, const SafetensorsFile& start,
                const std::vector<std::string>& arguments);

/// Threads of the side that has just finished may spin on for a while (OpenMP's do for 200 ms).
void settle();

}  // namespace tr::bench
