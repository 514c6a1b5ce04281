// SPDX-License-Identifier: Apache-2.0
// What a task shows of itself: predictions, single tensors, the first one that is not finite.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "task/trainer.h"

namespace tr {

namespace {

bool all_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return true;
  const Tensor values = tensor.to(DType::FP32);
  const auto span = values.values<float>();
  return std::all_of(span.begin(), span.end(), [](float v) { return std::isfinite(v); });
}

std::int64_t num_not_finite(const Tensor& tensor) {
  const Tensor values = tensor.to(DType::FP32);
  const auto span = values.values<float>();
  return std::count_if(span.begin(), span.end(), [](float v) { return !std::isfinite(v); });
}

/// Puts the counters to the last step's rows and draws, and back, whatever is thrown meanwhile.
class LastStep {
 public:
  LastStep(std::int64_t* counters, int micro_batches)
      : counters_(counters), row_(counters[kCounterRow]), step_(counters[kCounterStep]) {
    counters_[kCounterRow] = row_ - micro_batches;
    counters_[kCounterStep] = step_ - 1;
  }
  ~LastStep() {
    counters_[kCounterRow] = row_;
    counters_[kCounterStep] = step_;
  }
  LastStep(const LastStep&) = delete;
  LastStep& operator=(const LastStep&) = delete;

 private:
  std::int64_t* counters_;
  std::int64_t row_, step_;
};

}  // namespace

Tensor Trainer::predict(const Tensor& batch) {
  TR_CHECK(run_.compiled.arch.inputs.size() == 1, "predict: the model has {} inputs, expected 1",
           run_.compiled.arch.inputs.size());
  const std::string& field = run_.compiled.arch.inputs.front().field;
  const int variant = run_.variants.predict();
  const TensorType& type = run_.variants.keys()[std::size_t(variant)].fields.at(field);
  TR_CHECK(batch.shape().rank() == type.shape.rank() &&
               batch.shape().drop_first() == type.shape.drop_first(),
           "predict: the batch is {}, expected [n, ...] of samples {} (field \"{}\")", batch.type(),
           type.shape.drop_first(), field);
  TR_CHECK(is_floating(batch.dtype()) == is_floating(type.dtype),
           "predict: the batch is {}, expected {}", batch.dtype(), type.dtype);
  const Tensor converted = batch.dtype() == type.dtype ? batch : batch.to(type.dtype);
  Executor& executor = ranks_.front()->executor();
  const TensorType& out = state().persistent_tensors().at("output")->type;
  const std::int64_t n = batch.shape()[0], chunk = type.shape[0];
  const std::size_t in_bytes = std::size_t(bytes_of(type) / chunk),
                    out_bytes = std::size_t(bytes_of(out) / chunk);
  Tensor result(out.shape.with_dim(0, n), out.dtype);
  Tensor part = Tensor::zeros(type.shape, type.dtype);
  for (std::int64_t first = 0; first < n; first += chunk) {
    const std::size_t count = std::size_t(std::min(chunk, n - first));
    std::memcpy(part.raw(),
                static_cast<const std::byte*>(converted.raw()) + std::size_t(first) * in_bytes,
                count * in_bytes);
    executor.bind_input(field, part.raw());
    executor.run(variant);
    std::memcpy(static_cast<std::byte*>(result.raw()) + std::size_t(first) * out_bytes,
                executor.persistent("output"), count * out_bytes);
  }
  return result;
}

Tensor Trainer::predict_images(const Tensor& images) {
  TR_CHECK(images.dtype() == DType::UINT8 && images.shape().rank() == 4,
           "predict_images: the images are {}, expected uint8 [n, H, W, C]", images.type());
  data::LoaderConfig config = run_.loader_config(0);
  config.train.dataset = nullptr;
  config.val.dataset = make_tensor_dataset({{"image", images}});
  config.val.global_batch = config.val.batch_size;
  config.val.cache_processed = false;
  config.rank = 0;
  config.world_size = 1;
  const TensorType& sample = run_.eval_fields.at("image");
  const Shape given = config.val.transforms.output_shape(images.shape().drop_first());
  TR_CHECK(given == sample.shape,
           "predict_images: images of {} come out of the transforms as {}, expected {} (the input "
           "that the model was compiled for)",
           images.shape().drop_first(), given, sample.shape);
  data::Loader loader(config, [](std::int64_t i) {
    return i == 0 ? std::optional(data::StreamPhase{data::Split::VAL, 0}) : std::nullopt;
  });
  Tensor all(sample.shape.prepend(images.shape()[0]), sample.dtype);
  std::size_t at = 0;
  while (const data::Batch* batch = loader.next()) {
    const std::size_t bytes = std::size_t(batch->size * bytes_of(sample));
    std::memcpy(static_cast<std::byte*>(all.raw()) + at, batch->fields.at("image"), bytes);
    at += bytes;
    loader.release(*batch);
  }
  return predict(all);
}

void Trainer::with_last_batch(const std::function<void(int variant)>& body) {
  TR_CHECK(progress_.total_steps > 0, "no training step has been run yet");
  // The position of the step before the stream's next one.
  std::int64_t phase = progress_.phase, step = progress_.step;
  if (step == 0) {
    do {
      --phase;
    } while (run_.phases[std::size_t(phase)].split != data::Split::TRAIN);
    step = run_.train_steps;
  }
  data::LoaderConfig config = run_.loader_config(0);
  const data::StreamPhase only = run_.phases[std::size_t(phase)];
  data::Loader loader(
      config, [only](std::int64_t i) { return i == 0 ? std::optional(only) : std::nullopt; }, 0,
      step - 1);
  const data::Batch* batch = loader.next();
  TR_ASSERT(batch);
  Rank& rank = *ranks_.front();
  const LastStep again(state().persistent<std::int64_t>("counters"), run_.batches.accumulate_steps);
  rank.bind(*batch);
  body(run_.variants.train(0, batch->size));
}

Tensor Trainer::fetch(const std::string& name) {
  const auto& params = run_.compiled.arch.params;
  const bool average = name.starts_with("ema/");
  const std::string plain = average ? name.substr(4) : name;
  const bool is_param = std::any_of(params.begin(), params.end(),
                                    [&](const Param& param) { return param.name == plain; });
  if (is_param) return state().weight(plain, average ? WeightKind::EMA : WeightKind::CURRENT);
  if (const auto found = state().persistent_tensors().find(name);
      found != state().persistent_tensors().end()) {
    Tensor copy(found->second->type.shape, found->second->type.dtype);
    std::memcpy(copy.raw(), state().persistent<std::byte>(name), copy.num_bytes());
    return copy;
  }
  Tensor result;
  with_last_batch([&](int variant) { result = ranks_.front()->executor().fetch(variant, name); });
  return result;
}

std::string Trainer::find_nan() {
  std::string found;
  with_last_batch([&](int variant) {
    Executor& executor = ranks_.front()->executor();
    const LoweredGraph& graph =
        run_.compiled.lowered[std::size_t(run_.compiled.atlas.whole(variant))];
    const auto check = [&](TensorId id, const std::string& what) {
      const LoweredTensor& tensor = graph.tensor(id);
      if (!found.empty() || !is_floating(tensor.type.dtype)) return;
      const Tensor value = executor.fetch(variant, tensor.name);
      if (all_finite(value)) return;
      found = fmt::format("{} ({} of {} elements of \"{}\" {})", what, num_not_finite(value),
                          value.num_elements(), tensor.name, tensor.type);
    };
    for (TensorId id = 0; id < TensorId(graph.tensors.size()); ++id) {
      const LoweredTensor& tensor = graph.tensor(id);
      const bool owner = tensor.view_of == kNoTensor;
      if (tensor.role == Role::INPUT && owner)
        check(id, fmt::format("the data's field \"{}\"", tensor.name));
      if (tensor.role == Role::WEIGHT && tensor.range_role < 0) check(id, "a parameter");
    }
    for (const LoweredNode& node : graph.nodes) {
      if (node.label == GraphId::ACCUMULATE || node.label == GraphId::COMM ||
          node.label >= GraphId::CHECK)
        break;
      for (const TensorId id : node.outputs) {
        if (id == kNoTensor) continue;
        check(id, fmt::format("layer \"{}\" ({}){}", node.layer, node.op,
                              node.where.empty() ? "" : ", built at " + node.where.str()));
      }
    }
  });
  return found;
}

}  // namespace tr
