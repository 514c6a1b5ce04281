// SPDX-License-Identifier: Apache-2.0
#include "data/resident_set.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "core/half.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;

TEST(ResidentSetTest, HoldsEverySampleWhateverTheThreads) {
  const auto digits = make_procedural_digits("train", 1037, 4);
  for (const int threads : {1, 2, 5}) {
    const ResidentSet set(*digits, DType::FP16, threads);
    ASSERT_EQ(set.num_samples(), 1037);
    ASSERT_EQ(set.fields().size(), 2u);
    EXPECT_EQ(set.num_bytes(), 1037 * (784 + 4));
    EXPECT_EQ(resident_bytes(*digits, DType::FP16), set.num_bytes());
    const NamedTensor &image = set.fields()[0], &label = set.fields()[1];
    EXPECT_EQ(image.name, "image");
    EXPECT_EQ(image.tensor.type(), (TensorType{{1037, 28, 28, 1}, DType::UINT8}));
    for (std::int64_t id = 0; id < 1037; ++id) {
      std::byte pixels[784], number[4];
      std::byte* const out[] = {pixels, number};
      digits->read(id, out);
      ASSERT_EQ(std::memcmp(pixels, image.tensor.data<std::uint8_t>() + 784 * id, 784), 0) << id;
      ASSERT_EQ(std::memcmp(number, label.tensor.data<std::int32_t>() + id, 4), 0) << id;
    }
  }
}

TEST(ResidentSetTest, FloatImagesAreInTheBatchsType) {
  const Tensor images = Tensor::uniform({9, 2, 3, 1}, -2, 2, 1);
  const auto set = make_tensor_dataset({{"image", images}, {"target", images.clone()}});
  const ResidentSet resident(*set, DType::BF16);
  EXPECT_EQ(resident_bytes(*set, DType::BF16), resident.num_bytes());
  EXPECT_EQ(resident.fields()[1].tensor.dtype(), DType::FP32);  // not an image: as it is
  const Tensor& converted = resident.fields()[0].tensor;
  ASSERT_EQ(converted.dtype(), DType::BF16);
  for (std::int64_t i = 0; i < 54; ++i) {
    ASSERT_EQ(converted.data<BFloat16>()[i].bits,
              from_float<BFloat16>(images.data<float>()[i]).bits);
  }
}

/// Samples from `first_bad` on cannot be read, in steps of 100.
class TornSet final : public Dataset {
 public:
  explicit TornSet(std::int64_t first_bad) : first_bad_(first_bad) {}
  std::int64_t num_samples() const override { return 2000; }
  std::vector<Field> fields() const override { return {{"image", {{2, 2, 1}, DType::UINT8}}}; }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (id >= first_bad_ && (id - first_bad_) % 100 == 0) throw DataError("the file is cut");
    std::memset(out[0], int(id % 256), 4);
  }
  std::string name() const override { return "torn"; }

 private:
  std::int64_t first_bad_;
};

TEST(ResidentSetTest, NamesTheFirstSampleThatCannotBeRead) {
  for (const std::int64_t bad : {0, 255, 256, 777, 1999}) {
    EXPECT_TRUE(
        throws<DataError>([&] { ResidentSet(TornSet(bad), DType::FP32, 3); },
                          "sample " + std::to_string(bad) +
                              " of torn, read into memory for the device: the file is cut"));
  }
}

TEST(ResidentSetTest, RefusesTypesThatNoStepTakes) {
  const auto set = make_tensor_dataset({{"image", Tensor::zeros({3, 2, 2, 1}, DType::INT32)}});
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { ResidentSet(*set, DType::FP32); }, "expected uint8 or fp32"));
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { ResidentSet(*make_procedural_digits("val", 3), DType::INT32); },
                              "image_dtype is int32"));
}

}  // namespace
}  // namespace tr::data
