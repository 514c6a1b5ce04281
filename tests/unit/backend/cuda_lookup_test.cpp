// SPDX-License-Identifier: Apache-2.0
// Gradients of embedding and gather on a GPU: against the CPU's kernels, to the byte where the
// order of sums is one or does not matter; in time that grows with the number of reads alone.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "cuda_kernel_harness.h"
#include "support/compare.h"
#include "support/device.h"

namespace tr::test {
namespace {

using CudaLookup = DeviceTest<DeviceKind::CUDA>;
constexpr DType kFloats[] = {DType::FP32, DType::FP16, DType::BF16};
constexpr DType kIndices[] = {DType::INT32, DType::INT64};
constexpr std::int64_t kRun = 128;  // reads of one place that are summed one after the other

/// Numbers in [-1, below], of which the first and the last are of no row; `power` > 1 makes low
/// ones frequent.
Tensor numbers(const Shape& shape, std::int64_t below, DType dtype, double power = 1) {
  const Tensor draws = Tensor::uniform(shape, 0, 1, 3);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < draws.num_elements(); ++i) {
    values.push_back(std::int64_t(std::pow(draws.at(i), power) * double(below + 2)) - 1);
  }
  return Tensor::from(shape, values).to(dtype);
}

/// Small integers: their sums are exact in any order.
Tensor integers(const Shape& shape, DType dtype) {
  return Tensor::uniform(shape, -3, 4, 5).to(DType::INT32).to(dtype);
}

struct TableReads {
  std::int64_t count, rows, features;
  double power = 1;
  std::int64_t padding = -1;

  KernelCall call(DType dtype, DType index, bool exact) const {
    const Shape out = {count, features};
    KernelCall made{"embedding_dweight", {{"padding_idx", padding}}, {}, {}};
    made.inputs = {exact ? integers(out, dtype) : Tensor::uniform(out, -1, 1, 7, dtype),
                   numbers({count}, rows, index, power), Tensor::zeros({rows, features})};
    return made;
  }
};

struct LineReads {
  Shape x, index;
  std::int64_t axis;
  double power = 1;

  KernelCall call(DType dtype, DType index_dtype, bool exact) const {
    KernelCall made{"gather_backward", {{"axis", axis}}, {}, {}};
    made.inputs = {exact ? integers(index, dtype) : Tensor::uniform(index, -1, 1, 7, dtype),
                   numbers(index, x[int(axis)], index_dtype, power), Tensor::zeros(x, dtype)};
    return made;
  }
};

void expect_cpu_bytes(const KernelCall& call) {
  EXPECT_TRUE(same_bytes(run_cuda_kernel(call).outputs[0], run_kernel(call).outputs[0]));
  EXPECT_TRUE(same_bytes_every_launch(call));
}

/// With sums of fractions where `ordered`: no place is read more than kRun times.
template <typename Reads>
void expect_cpu_bytes(const std::vector<Reads>& all, bool ordered) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const DType dtype : kFloats) {
      for (const DType index : kIndices) {
        SCOPED_TRACE(testing::Message()
                     << "case " << i << ", " << name_of(dtype) << ", " << name_of(index));
        expect_cpu_bytes(all[i].call(dtype, index, !ordered));
      }
    }
  }
}

TEST_F(CudaLookup, TablesThatAreReadSeldomHaveTheBytesOfTheCpu) {
  expect_cpu_bytes<TableReads>({{1, 1, 1},
                                {kRun, 1, 5},
                                {100, 1000, 4, 1, 3},
                                {2047, 255, 3},
                                {2049, 256, 8, 1, 0},
                                {3000, 257, 130},
                                {20000, 70001, 12},
                                {9001, 1000, 260}},
                               true);
}

TEST_F(CudaLookup, FrequentRowsHaveTheBytesOfTheCpuIfSumsAreExact) {
  expect_cpu_bytes<TableReads>({{kRun + 1, 1, 4},
                                {5000, 2, 65, 1, 1},
                                {30000, 50000, 8, 20},
                                {100000, 1, 3},
                                {70000, 7, 132, 2, 0}},
                               false);
}

TEST_F(CudaLookup, LinesThatAreReadSeldomHaveTheBytesOfTheCpu) {
  expect_cpu_bytes<LineReads>({{{3, 7}, {3, 32}, 1},       // as many as an element looks through
                               {{3, 7}, {3, 33}, 1},       // sorted
                               {{kRun, 1}, {kRun, 1}, 0},  // a line a column
                               {{2, 300, 5}, {2, 4097, 5}, 1},
                               {{70, 40, 31}, {90, 40, 31}, 0}},
                              true);
}

TEST_F(CudaLookup, FrequentElementsHaveTheBytesOfTheCpuIfSumsAreExact) {
  expect_cpu_bytes<LineReads>(
      {{{1, 1}, {1, kRun + 1}, 1}, {{2, 1, 3}, {2, 5000, 3}, 1}, {{4, 1000}, {4, 30000}, 1, 8}},
      false);
}

// Sums of fractions: every run's are in order, those of the runs are added in an order of their
// own.
TEST_F(CudaLookup, OneRowReadAHundredThousandTimesErrsLikeASum) {
  for (const DType dtype : kFloats) {
    const KernelCall call = TableReads{100000, 1, 5}.call(dtype, DType::INT32, false);
    const Tensor &dy = call.inputs[0], &ids = call.inputs[1];
    Array want({1, 5});
    for (std::int64_t i = 0; i < dy.num_elements(); ++i) {
      if (ids.at(i / 5) == 0) want[i % 5] += dy.at(i);
    }
    EXPECT_TRUE(is_close(run_cuda_kernel(call).outputs[0], want, tolerance(DType::FP32, 100000)));
    EXPECT_TRUE(same_bytes_every_launch(call));
  }
}

double seconds_of(const KernelCall& call, KernelResult& result) {
  const auto begin = std::chrono::steady_clock::now();
  result = run_cuda_kernel(call);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// 0 .. count - 1 in another order; `count` is a power of two.
Tensor all_different(std::int64_t count) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[std::size_t(i)] = std::int32_t((i * 1000003 + 17) % count);
  return Tensor::from({count}, values);
}

// Eight million reads, of as many places or of one: looking through all others for each, or walking
// from one to the next, takes a minute.
TEST_F(CudaLookup, TakesAsLongAsTheReadsAreMany) {
  constexpr std::int64_t kCount = 1 << 23;
  const Tensor dy = integers({kCount, 1}, DType::FP32), different = all_different(kCount);
  const Tensor equal = Tensor::zeros({kCount}, DType::INT32), table = Tensor::zeros({kCount, 1});
  const Tensor line = Tensor::zeros({1, kCount});
  double sum = 0;
  for (std::int64_t i = 0; i < kCount; ++i) sum += dy.at(i);
  KernelResult result;
  const KernelCall read{"embedding", {}, {different, table}, {}};
  seconds_of(read, result);  // the device is started
  const double forward = seconds_of(read, result);
  for (const bool of_table : {true, false}) {
    for (const Tensor& ids : {different, equal}) {
      SCOPED_TRACE(testing::Message() << of_table << " " << ids.at(1));
      const KernelCall call =
          of_table ? KernelCall{"embedding_dweight", {}, {dy, ids, table}, {}}
                   : KernelCall{"gather_backward",
                                {{"axis", std::int64_t{1}}},
                                {dy.reshape({1, kCount}), ids.reshape({1, kCount}), line},
                                {}};
      EXPECT_LT(seconds_of(call, result), 20 * forward);
      const Tensor& got = result.outputs[0];
      if (ids.at(1) == 0) {
        EXPECT_EQ(got.at(0), sum);
        EXPECT_EQ(got.at(1), 0);
        continue;
      }
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < kCount; ++i)
        wrong += got.at(std::int64_t(ids.at(i))) != dy.at(i);
      EXPECT_EQ(wrong, 0);
    }
  }
}

}  // namespace
}  // namespace tr::test
