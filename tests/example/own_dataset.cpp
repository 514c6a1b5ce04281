// SPDX-License-Identifier: Apache-2.0

#include <cstring>
#include <iostream>

#include "renaissance.h"

using namespace tr;

/// Stripes of a random width: class 0 lying, class 1 standing.
class Stripes final : public Dataset {
 public:
  explicit Stripes(std::int64_t n) : n_(n) {}
  std::string name() const override { return "stripes"; }
  std::int64_t num_samples() const override { return n_; }
  int num_classes() const override { return 2; }
  std::vector<Field> fields() const override {
    return {{"image", {{12, 16, 3}, DType::UINT8}}, {"label", {Shape{}, DType::INT32}}};
  }
  // Called from several threads at once: what it gives depends on `id` alone.
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (id == 77) throw DataError("sample 77 of stripes is damaged");  // it is named and skipped
    const std::int32_t label = std::int32_t(id % 2);
    const std::int64_t width = 1 + id / 2 % 4;
    for (std::int64_t at = 0; at < 12 * 16 * 3; ++at) {
      const std::int64_t row = at / 48, column = at / 3 % 16;
      out[0][at] = std::byte((label == 0 ? row : column) / width % 2 == 0 ? 40 : 200);
    }
    std::memcpy(out[1], &label, sizeof label);
  }

 private:
  std::int64_t n_;
};

int main() {
  GLOBAL_SETTING.use_cpu().manual_seed(1).global_batch_size(20);
  PREPROCESSOR_SETTING.bad_sample_policy(BadSamplePolicy::SKIP);
  DeepLearningTask task;
  task.model(seq(flatten(), fc(32, true), relu(), fc(2, true)))
      .dataset({std::make_shared<Stripes>(400), std::make_shared<Stripes>(70)})
      .total_epochs(3)
      .compile();
  std::cout << "best top-1: " << task.run().best_top1 << "\n";
}
