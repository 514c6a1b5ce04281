// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance.h"

namespace tr::toy {

/// A small classification set that an MLP learns in a few epochs: the label is the largest of the
/// first four features.
inline std::shared_ptr<const Dataset> make_set(std::int64_t n, std::uint64_t seed) {
  const Tensor x = Tensor::uniform({n, 8}, -1, 1, seed);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < n; ++i) {
    const float* row = x.data<float>() + i * 8;
    int best = 0;
    for (int k = 1; k < 4; ++k) best = row[k] > row[best] ? k : best;
    labels.push_back(best);
  }
  return make_tensor_dataset(
      {{"image", x}, {"label", Tensor::from({n}, std::span<const std::int32_t>(labels))}}, 4);
}

inline DatasetPair make_data(std::int64_t n = 210) { return {make_set(n, 1), make_set(75, 2)}; }

inline BluePrint make_model() { return seq(fc(16, true), relu(), dropout(0.1f), fc(4, true)); }

inline Session make_session(int batch = 20, int workers = 1) {
  Session session;
  session.global.use_cpu().manual_seed(7).global_batch_size(batch).threads(1);
  session.preprocessor.preprocess_workers(workers);
  return session;
}

/// A task over the set above; nothing is compiled yet.
inline DeepLearningTask make_task(const Session& session, const DatasetPair& data, int epochs = 3) {
  DeepLearningTask task;
  task.model(make_model())
      .loss(CrossEntropyLoss())
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(0.01))
      .total_epochs(epochs)
      .session(session)
      .dataset(data);
  return task;
}

/// Silences log and progress while it lives.
class Quiet {
 public:
  Quiet()
      : log_(set_log_sink([](LogLevel, std::string_view) {})), progress_(set_progress_sink({})) {}
  ~Quiet() {
    set_log_sink(std::move(log_));
    set_progress_sink(std::move(progress_));
  }

 private:
  LogSink log_;
  ProgressSink progress_;
};

}  // namespace tr::toy
