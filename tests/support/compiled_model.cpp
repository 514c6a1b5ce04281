// SPDX-License-Identifier: Apache-2.0
#include "support/compiled_model.h"

#include <algorithm>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "core/check.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "task/device.h"

namespace tr::test {
namespace {

CompileRequest request_of(const BluePrint& model, const CompiledModel::Options& options) {
  CompileRequest request;
  request.model = model;
  request.sample_fields = {{"image", {options.picture, DType::FP32}},
                           {"label", {Shape{}, DType::INT32}}};
  request.loss = loss_spec(CrossEntropyLoss().label_smoothing(options.smoothing));
  request.optimizer = optimizer_spec(options.optimizer);
  request.graph = options.graph;
  VariantKey key;
  key.mode = options.mode;
  key.batch = options.batch;
  key.name = std::string(name_of(options.mode));
  for (const auto& [name, type] : request.sample_fields) {
    key.fields[name] = {type.shape.prepend(options.batch), type.dtype};
  }
  key.fields.at("image").dtype = options.graph.low_dtype.value_or(DType::FP32);
  request.variants = {key};
  return request;
}

/// A device's kernels, of whose fused forms passes get some.
class Selected final : public KernelOracle {
 public:
  using Offers = std::function<bool(const std::string&, const Attrs&)>;
  Selected(const KernelOracle& all, Offers offers) : all_(all), offers_(std::move(offers)) {}
  KernelChoice choose(const std::string& op, const Attrs& attrs, std::span<const TensorType> in,
                      std::span<const TensorType> out) const override {
    return all_.choose(op, attrs, in, out);
  }
  bool knows(const std::string& op) const override { return all_.knows(op); }
  bool fuses(const std::string& op, const Attrs& attrs,
             std::span<const TensorType> in) const override {
    return (!offers_ || offers_(op, attrs)) && all_.fuses(op, attrs, in);
  }
  DeviceKind device() const override { return all_.device(); }

 private:
  const KernelOracle& all_;
  Offers offers_;
};

template <typename T>
void write_all(Executor& executor, const std::string& name, const std::vector<T>& values) {
  executor.write(executor.place(name), values.data(), std::int64_t(values.size() * sizeof(T)));
}

}  // namespace

CompiledModel::CompiledModel(const BluePrint& model, const Options& options) : options_(options) {
  const auto oracle = make_kernel_oracle(options.device.kind, tuning_);
  compiled_ = compile(request_of(model, options), Selected(*oracle, options.offers));
  executor_ =
      make_executor(options.device.kind, compiled_, {.num_threads = options.device.num_threads});
  if (options.mode != Mode::TRAIN) return;
  write_all(*executor_, "segments", compiled_.memory.segments);
  write_all(*executor_, "loss_scale", std::vector<float>{options.graph.initial_loss_scale});
}

/// A trained parameter's part of the range of a role; a buffer, or a model that only predicts: by
/// name.
std::int64_t CompiledModel::place(const Param& param, Role role) const {
  if (options_.mode != Mode::TRAIN || param.spec.kind == ParamKind::BUFFER) {
    return executor_->place(param.name);
  }
  const auto own = std::find_if(params().begin(), params().end(),
                                [&](const Param& p) { return p.name == param.name; });
  TR_CHECK(own != params().end(), "the model has no parameter '{}'", param.name);
  const auto index = std::size_t(own - params().begin());
  const std::int64_t size =
      std::int64_t(size_of(role == Role::WEIGHT_CAST ? *options_.graph.low_dtype : DType::FP32));
  return executor_->place(fmt::format("range({})", name_of(role))) +
         compiled_.memory.param_element_offset[index] * size;
}

void CompiledModel::write(std::int64_t place, const Tensor& value) {
  executor_->write(place, value.raw(), std::int64_t(value.num_bytes()));
}

Tensor CompiledModel::read(const Param& param, std::int64_t place) {
  Tensor value(param.spec.type.shape, param.spec.type.dtype);
  executor_->read(place, value.raw(), std::int64_t(value.num_bytes()));
  return value;
}

void CompiledModel::write(const Param& param, const Tensor& value) {
  TR_CHECK(value.type() == param.spec.type, "{} is {}, expected {}", param.name, value.type(),
           param.spec.type);
  write(place(param, Role::WEIGHT), value);
  if (const auto& low = options_.graph.low_dtype; low && param.spec.kind != ParamKind::BUFFER) {
    write(place(param, Role::WEIGHT_CAST), value.to(*low));
  }
}

Tensor CompiledModel::read(const Param& param) { return read(param, place(param, Role::WEIGHT)); }

void CompiledModel::write_moment(const Param& param, const Tensor& value) {
  write(place(param, Role::MOMENT1), value);
}

Tensor CompiledModel::read_moment(const Param& param) {
  return read(param, place(param, Role::MOMENT1));
}

void CompiledModel::set_rates(float lr, float momentum, float decay) {
  const auto columns = std::size_t(step_floats_columns(1));
  std::vector<float> table(columns * std::size_t(options_.graph.table_capacity));
  for (std::size_t row = 0; row < table.size(); row += columns) {
    table[row + kFloatInvWeight] = 1.0f / float(options_.batch);
    table[row + kFloatHeader + kGroupLr] = lr;
    table[row + kFloatHeader + kGroupDecay] = decay;
    table[row + kFloatHeader + kGroupMomentum] = momentum;
  }
  write_all(*executor_, "step_floats", table);
}

double CompiledModel::step(const Tensor& pictures, const Tensor& labels) {
  executor_->bind_input("image", pictures.raw());
  executor_->bind_input("label", labels.raw());
  executor_->run(0);
  const std::int64_t row = done_++ % options_.graph.table_capacity;
  float result[kResultColumns];
  executor_->read(executor_->place("results") + row * std::int64_t(sizeof result), result,
                  sizeof result);
  TR_CHECK(result[kResultFoundInf] == 0, "step {} found a gradient that is not finite", done_);
  return double(result[kResultLossSum]) / double(options_.batch);
}

Tensor CompiledModel::predict(const Tensor& pictures) {
  executor_->bind_input("image", pictures.raw());
  executor_->run(0);
  const std::int64_t place = executor_->place("output");
  const auto& tensors = compiled_.lowered.front().tensors;
  const auto output = std::find_if(tensors.begin(), tensors.end(),
                                   [](const LoweredTensor& t) { return t.name == "output"; });
  Tensor scores(output->type.shape, output->type.dtype);
  executor_->read(place, scores.raw(), std::int64_t(scores.num_bytes()));
  return scores;
}

}  // namespace tr::test
