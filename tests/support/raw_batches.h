// SPDX-License-Identifier: Apache-2.0
#pragma once

// The last pass of images by the graph against the loader's own, byte for byte.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "data/loader.h"
#include "data/transforms/row_normalizer.h"
#include "graph/compiler.h"
#include "renaissance/data/datasets.h"
#include "renaissance/task/simple_task.h"

namespace tr::test {

/// Small pictures with all values, and a label each.
inline std::shared_ptr<const Dataset> random_pictures(std::int64_t n, const Shape& shape,
                                                      std::uint64_t seed) {
  const Tensor values = Tensor::uniform(shape.prepend(n), 0, 255.99f, seed);
  Tensor images(values.shape(), DType::UINT8);
  for (std::int64_t i = 0; i < values.num_elements(); ++i)
    images.data<std::uint8_t>()[i] = std::uint8_t(values.data<float>()[i]);
  return make_tensor_dataset({{"image", images}, {"label", Tensor::zeros({n}, DType::INT32)}}, 1);
}

/// A training and a validation set of 61 and 17 pictures [19, 23, channels] with everything that
/// the last pass does.
inline data::LoaderConfig last_pass_config(int channels, int output_channels, DType dtype) {
  TransformChain chain{.transforms = {RandomCrop(18), RandomHorizontalFlip(), RandomVerticalFlip(),
                                      RandomErasing(0.5f)},
                       .normalization = {{0.4f, 0.5f, 0.1f}, {0.2f, 0.3f, 1.7f}},
                       .output_channels = output_channels};
  chain.normalization.mean.resize(std::size_t(channels));
  chain.normalization.std.resize(std::size_t(channels));
  data::LoaderConfig config;
  config.train = {.dataset = random_pictures(61, {19, 23, channels}, 1),
                  .transforms = chain,
                  .batch_size = 12,
                  .global_batch = 12,
                  .shuffle = true};
  chain.transforms = {CenterCrop(20)};
  config.val = {.dataset = random_pictures(17, {19, 23, channels}, 2),
                .transforms = chain,
                .batch_size = 7,
                .global_batch = 7,
                .cache_processed = true};
  config.image_dtype = dtype;
  config.seed = 11;
  config.num_workers = 2;
  return config;
}

/// Hash of the images of two epochs with their validations. Raw ones go through normalize_image on
/// `device`.
inline std::string images_hash(const data::LoaderConfig& config, TaskDevice device = {}) {
  data::Loader loader(config, [](std::int64_t i) {
    const auto split = i % 2 == 0 ? data::Split::TRAIN : data::Split::VAL;
    return i < 4 ? std::optional(data::StreamPhase{split, i / 2}) : std::nullopt;
  });
  Sha256 hash;
  while (const data::Batch* batch = loader.next()) {
    const data::SplitConfig& split = config.of(batch->phase.split);
    const Shape stored = split.dataset->fields()[0].type.shape;
    const Shape out = split.transforms.output_shape(stored).prepend(batch->size);
    Tensor images(out, config.image_dtype);
    if (config.raw_images) {
      Tensor pixels(out.with_dim(3, stored.back()), DType::UINT8);
      Tensor tails({batch->size, 8}, DType::INT32);
      std::memcpy(pixels.raw(), batch->fields.at("image_pixels"), pixels.num_bytes());
      std::memcpy(tails.raw(), batch->fields.at("image_tail"), tails.num_bytes());
      RawImages raw{.channels = split.transforms.output_channels, .mean = {}, .std = {}};
      for (const auto& norm :
           data::channel_norms(split.transforms.normalization, int(stored.back()))) {
        raw.mean.push_back(norm.mean);
        raw.std.push_back(norm.std);
      }
      images = run_op("normalize_image", {pixels, tails},
                      normalize_image_attrs(raw, config.image_dtype), device)
                   .front();
    } else {
      std::memcpy(images.raw(), batch->fields.at("image"), images.num_bytes());
    }
    hash.update({static_cast<const std::byte*>(images.raw()), images.num_bytes()});
    loader.release(*batch);
  }
  return hash.hex();
}

/// Every number of channels, added ones, and every dtype.
inline void expect_same_last_pass(TaskDevice device) {
  for (const auto& [channels, output] : {std::pair{1, 0}, {3, 0}, {3, 4}, {3, 8}, {1, 8}}) {
    for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
      data::LoaderConfig config = last_pass_config(channels, output, dtype);
      const std::string want = images_hash(config);
      config.raw_images = true;
      EXPECT_EQ(images_hash(config, device), want)
          << channels << " channels to " << output << ", " << name_of(dtype);
    }
  }
}

}  // namespace tr::test
