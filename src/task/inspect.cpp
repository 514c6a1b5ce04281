// SPDX-License-Identifier: Apache-2.0
// What a task shows of itself: predictions and single tensors.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/check.h"
#include "core/format.h"
#include "data/picture_set.h"
#include "task/trainer.h"

namespace tr {

namespace {

/// Its gradients stay on the chip.
bool has_fused_update(const LoweredGraph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const LoweredNode& node) { return node.op == "fc_update"; });
}

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
    executor.read(executor.place("output"),
                  static_cast<std::byte*>(result.raw()) + std::size_t(first) * out_bytes,
                  std::int64_t(count * out_bytes));
  }
  return result;
}

Tensor Trainer::predict_images(const Tensor& images) {
  TR_CHECK(images.dtype() == DType::UINT8 && images.shape().rank() == 4,
           "predict_images: the images are {}, expected uint8 [n, H, W, C]", images.type());
  return predict_set(make_tensor_dataset({{"image", images}}), "predict_images");
}

Tensor Trainer::predict_pictures(const std::vector<std::string>& paths) {
  TR_CHECK(!paths.empty(), "predict_pictures: there are no files, expected at least 1");
  const PreprocessorSetting::Values& settings = run_.config.preprocessor.values();
  data::PictureList list;
  for (const std::string& path : paths) list.add(path, 0);
  const bool gray = image_type("predict_pictures").shape.back() == 1;
  const int channels = settings.color_channels != 0 ? settings.color_channels : gray ? 1 : 3;
  const auto reader = std::make_shared<data::FileReader>(
      data::FileReaderOptions{.timeout_s = settings.read_timeout_s});
  return predict_set(
      std::make_shared<data::PictureSet>("pictures", std::move(list), data::PictureClasses{{}, 1},
                                         channels, reader),
      "predict_pictures");
}

const TensorType& Trainer::image_type(std::string_view who) const {
  const auto found = run_.fields.predict.find("image");
  TR_CHECK(found != run_.fields.predict.end(),
           "{}: the model takes no field \"image\"; predict() takes batches of any field", who);
  return found->second;
}

Tensor Trainer::predict_set(const std::shared_ptr<const Dataset>& set, std::string_view who) {
  data::LoaderConfig config = run_.loader_config(0);
  config.train.dataset = nullptr;
  config.val.dataset = set;
  config.val.global_batch = config.val.batch_size;
  config.val.cache_processed = false;
  config.raw_images = false;
  config.full_memory = nullptr;
  config.rank = 0;
  config.world_size = 1;
  config.bad_samples = nullptr;  // a prediction is of the sample itself or of none
  const TensorType& sample = image_type(who);
  const Shape shape = set->fields().front().type.shape;
  const Shape given = config.val.transforms.output_shape(shape);
  TR_CHECK(given == sample.shape,
           "{}: images of {} come out of the transforms as {}, expected {} (the input that the "
           "model was compiled for)",
           who, shape, given, sample.shape);
  data::Loader loader(config, [](std::int64_t i) {
    return i == 0 ? std::optional(data::StreamPhase{data::Split::VAL, 0}) : std::nullopt;
  });
  Tensor all(sample.shape.prepend(set->num_samples()), sample.dtype);
  std::size_t at = 0;
  while (const data::Batch* batch = loader.next()) {
    const std::size_t bytes = std::size_t(batch->size * bytes_of(sample));
    std::memcpy(static_cast<std::byte*>(all.raw()) + at, batch->fields.at("image"), bytes);
    at += bytes;
    loader.release(*batch);
  }
  return predict(all);
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
    const std::vector<LoweredGraph>& graphs = run_.compiled.lowered;
    const bool unwritten = found->second->role == Role::GRADIENT &&
                           std::any_of(graphs.begin(), graphs.end(), has_fused_update);
    TR_CHECK(!unwritten,
             "fetch: \"{}\" is not written, since the weights are updated where the gradients are "
             "made; expected keep_gradients=true before compile()",
             name);
    return state().copy_of(name);
  }
  Tensor result;
  replay(last_step(), 0, [&](Executor& executor, int variant) {
    result = executor.fetch(variant, name);
    return false;  // the first micro-batch
  });
  return result;
}

std::vector<OpTime> Trainer::profile() {
  TR_CHECK(run_.data.train, "profile: the task was compiled without a training set");
  TR_CHECK(!in_on_step_ || ranks_.size() == 1,
           "profile: it is called in on_step of {} ranks, which are in their next step; expected "
           "in on_epoch or after run()",
           ranks_.size());
  const auto variant_of = [&](const Rank& rank) {
    return run_.variants.train(0, rank.first_batch_size());
  };
  // All ranks take part in the step's sums.
  for_each_rank(ranks_, [&](Rank& rank) {
    const SafetensorsFile before{rank.state().snapshot(), {}};
    rank.bind_zeros();
    rank.executor().set_profiling(true);
    rank.executor().run(variant_of(rank));
    rank.executor().set_profiling(false);
    rank.state().restore(before);
  });
  const Rank& lead = *ranks_.front();
  std::vector<OpTime> times;
  for (const auto& [op, seconds] : ranks_.front()->executor().node_seconds(variant_of(lead)))
    times.push_back({op, seconds});
  return times;
}

}  // namespace tr
