// SPDX-License-Identifier: Apache-2.0
#include "correction/optimizer_runs.h"

#include <algorithm>

#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"

namespace tr::test {

std::shared_ptr<const Dataset> run_samples(std::int64_t bad_batch) {
  Tensor x = Tensor::uniform({kRunSamples, 12}, -1, 1, 1);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kRunSamples; ++i) {
    const float* row = x.data<float>() + i * 12;
    labels.push_back(std::int32_t(std::max_element(row, row + 4) - row));
  }
  for (std::int64_t i = 0; bad_batch >= 0 && i < kRunBatch * 12; ++i) {
    x.data<float>()[bad_batch * kRunBatch * 12 + i] *= 1e6f;
  }
  return make_tensor_dataset({{"image", x}, {"label", Tensor::from({kRunSamples}, labels)}}, 4);
}

void PrintTo(const OptimizerRow& row, std::ostream* out) { *out << row.name; }

std::vector<OptimizerRow> optimizer_rows() {
  return {
      {"sgd", SGD().momentum(0.9).weight_decay(1e-4), 0.1},
      {"adamw", AdamW().weight_decay(1e-2), 0.02},
      {"lion", Lion().weight_decay(1e-2), 0.003},
      {"rmsprop", RMSprop().momentum(0.5).centered(), 0.003},
      {"adagrad", Adagrad().lr_decay(1e-3), 0.1},
      {"lars", LARS().momentum(0.9).trust_coefficient(0.05).weight_decay(1e-3), 0.05},
      {"lars_paper",
       LARS().momentum(0.9).trust_coefficient(0.05).weight_decay(1e-3).rate_in_momentum(), 0.05},
      {"lamb", LAMB().weight_decay(1e-2), 0.01},
      {"adam", Adam().weight_decay(1e-4), 0.02},
      {"muon", Muon().weight_decay(1e-2).not_matrices({"4."}), 0.02},
      {"shampoo", Shampoo().weight_decay(1e-2).precondition_every(3).block_size(10), 0.02},
      {"shampoo_none", Shampoo().grafting(Optimizer::Grafting::NONE).not_matrices({"4."}), 0.05},
      {"soap", SOAP().weight_decay(1e-2).precondition_every(3), 0.02},
      {"soap_side", SOAP().max_preconditioner_dim(16), 0.02}};
}

DeepLearningTask OptimizerRunTest::task(const std::string& amp, int epochs, int threads,
                                        std::int64_t bad_batch) const {
  silence();
  RunOptions options;
  options.amp = amp;
  options.threads = threads;
  options.batch = kRunBatch;
  DeepLearningTask made;
  made.session(session_of(options))
      .dataset({run_samples(bad_batch), nullptr})
      .model(seq(fc(24, true), relu(), fc(16, true), silu(), fc(4, true)))
      .loss(CrossEntropyLoss())
      .optimizer(GetParam().optimizer)
      .scheduler(ConstantLR().base_lr(GetParam().lr))
      .total_epochs(epochs);
  return made;
}

}  // namespace tr::test
