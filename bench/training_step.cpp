// SPDX-License-Identifier: Apache-2.0
#include "training_step.h"

#include <chrono>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <thread>

#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "task/file_layout.h"

namespace tr::bench {
namespace {

Tensor batch_of(const Tensor& all, std::int64_t index) {
  Tensor batch(all.shape().drop_first(), all.dtype());
  std::memcpy(batch.raw(),
              static_cast<const std::byte*>(all.raw()) + index * std::int64_t(batch.num_bytes()),
              batch.num_bytes());
  return batch;
}

}  // namespace

TrainingStep::TrainingStep(const SafetensorsFile& start, const CompileRequest& request,
                           std::vector<GroupRates> rates, int threads)
    : start_(start), request_(request), rates_(std::move(rates)) {
  const Stopwatch watch;
  const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning_);
  compiled_ = compile(request_, *oracle);
  ExecutorOptions options;
  options.num_threads = threads;
  executor_ = make_cpu_executor(compiled_, options);
  compile_ms_ = watch.ms();
  const DType dtype = request_.graph.low_dtype.value_or(DType::FP32);
  const Tensor& x = start.at("x");
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
    images_.push_back(batch_of(x, i).to(dtype));
    labels_.push_back(batch_of(start.at("y"), i));
  }
  reset();
}

void TrainingStep::reset() {
  for (std::size_t p = 0; p < compiled_.arch.params.size(); ++p) {
    const Param& param = compiled_.arch.params[p];
    const Tensor value = start_.contains(param.name)
                             ? from_file_layout(start_.at(param.name), param.spec)
                             : Tensor::full(param.spec.type.shape, param.spec.fill);
    write_param(p, value);
  }
  const std::vector<Segment>& segments = compiled_.memory.segments;
  write("segments", segments.data(), segments.size() * sizeof(Segment));
  const float loss_scale = 1;
  write("loss_scale", &loss_scale, sizeof(loss_scale));
  const auto columns = std::size_t(step_floats_columns(int(rates_.size())));
  std::vector<float> table(columns * std::size_t(request_.graph.table_capacity));
  for (std::size_t at = 0; at < table.size(); at += columns) {
    float* row = table.data() + at;
    row[kFloatInvWeight] = 1.0f / float(request_.variants.front().batch);
    for (std::size_t g = 0; g < rates_.size(); ++g) {
      float* group = row + kFloatHeader + kGroupColumns * int(g);
      group[kGroupLr] = rates_[g].lr;
      group[kGroupDecay] = rates_[g].decay;
      group[kGroupMomentum] = rates_[g].momentum;
    }
  }
  write("step_floats", table.data(), table.size() * sizeof(float));
  done_ = 0;
}

void TrainingStep::run() {
  const auto batch = std::size_t(done_++) % images_.size();
  executor_->bind_input("image", images_[batch].raw());
  executor_->bind_input("label", labels_[batch].raw());
  executor_->run(0);
}

double TrainingStep::loss() {
  const std::int64_t row = (done_ - 1) % request_.graph.table_capacity;
  float result[kResultColumns];
  executor_->read(executor_->place("results") + row * std::int64_t(sizeof(result)), result,
                  sizeof(result));
  TR_CHECK(result[kResultFoundInf] == 0, "bench: step {} found a gradient that is not finite",
           done_);
  return double(result[kResultLossSum]) / double(request_.variants.front().batch);
}

double TrainingStep::loss_after(int steps) {
  for (int i = 0; i < steps; ++i) run();
  return loss();
}

double TrainingStep::turn_ms(int steps, int warm_up) {
  std::vector<double> samples;
  for (int i = 0; i < warm_up; ++i) run();
  for (int i = 0; i < steps; ++i) {
    const Stopwatch watch;
    run();
    samples.push_back(watch.ms());
  }
  loss();  // the steps were good ones
  return summarize(samples).median;
}

void TrainingStep::print_profile(int steps) {
  executor_->set_profiling(true);
  executor_->node_seconds(0);
  for (int i = 0; i < steps; ++i) run();
  double total = 0;
  for (const auto& [node, seconds] : executor_->node_seconds(0)) {
    std::cerr << fmt::format("  {:<48} {:9.1f} us\n", node, seconds * 1e6 / steps);
    total += seconds;
  }
  std::cerr << fmt::format("  {:<48} {:9.1f} us\n", "sum", total * 1e6 / steps);
  executor_->set_profiling(false);
}

void TrainingStep::write(const std::string& name, const void* from, std::size_t bytes) {
  executor_->write(executor_->place(name), from, std::int64_t(bytes));
}

/// Writes a parameter's part of its range, and its 16-bit copy's; a buffer by its name.
void TrainingStep::write_param(std::size_t index, const Tensor& value) {
  const Param& param = compiled_.arch.params[index];
  if (param.spec.kind == ParamKind::BUFFER)
    return write(param.name, value.raw(), value.num_bytes());
  const auto put = [&](Role role, const Tensor& part) {
    const std::int64_t place =
        executor_->place(fmt::format("range({})", name_of(role))) +
        compiled_.memory.param_element_offset[index] * std::int64_t(size_of(part.dtype()));
    executor_->write(place, part.raw(), std::int64_t(part.num_bytes()));
  };
  put(Role::WEIGHT, value);
  if (const auto& low = request_.graph.low_dtype) put(Role::WEIGHT_CAST, value.to(*low));
}

Peer start_peer(const std::string& python, const std::string& program, const SafetensorsFile& start,
                const std::vector<std::string>& arguments) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("bench_{}.safetensors", now_ns());
  save_safetensors(path.string(), start);
  std::vector<std::string> all = {find_peer(program), path.string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  Peer peer{std::make_unique<PeerProcess>(python, all), ""};
  peer.name = peer.process->ask("version");
  std::filesystem::remove(path);
  return peer;
}

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(400)); }

}  // namespace tr::bench
