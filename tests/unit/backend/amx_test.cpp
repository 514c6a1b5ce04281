// SPDX-License-Identifier: Apache-2.0
// Packing and loops of the AMX product, over tiles that are arrays: runs on any processor. The
// instructions themselves are tested by fc_test, where the processor has them.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/amx_kernel.h"
#include "backend/cpu/packed_matmul.h"
#include "renaissance/tensor/tensor.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace tr::test {
namespace {

struct AmxCase {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
};

class AmxProductTest : public testing::TestWithParam<AmxCase> {};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// 64 aligned bytes inside `buffer`, which is 16 floats longer than needed.
std::byte* aligned(std::vector<float>& buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
  return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
}

Tensor product(const cpu::TiledMatmul& matmul, const Tensor& a, const Tensor& b) {
  const cpu::MatmulShape& s = matmul.shape();
  Tensor c = Tensor::full({s.m, s.n}, kNan);
  std::vector<float> shared(std::size_t(matmul.shared_bytes() / 4 + 16), kNan);
  std::vector<float> scratch(std::size_t(matmul.scratch_bytes() / 4 + 16), kNan);
  for (std::int64_t task = 0; task < matmul.num_setup_tasks(); ++task) {
    matmul.run_setup(task, a.raw(), b.raw(), aligned(shared));
  }
  for (std::int64_t tile = 0; tile < matmul.num_tiles(); ++tile) {
    matmul.run_tile(tile, a.raw(), b.raw(), c.data<float>(), aligned(shared), aligned(scratch));
  }
  return c;
}

TEST_P(AmxProductTest, EmulatedTilesGiveTheProduct) {
  const auto& [m, n, k, transpose_a, transpose_b] = GetParam();
  const Tensor a = Tensor::uniform(transpose_a ? Shape{k, m} : Shape{m, k}, -1, 1, 1, DType::BF16);
  const Tensor b = Tensor::uniform(transpose_b ? Shape{n, k} : Shape{k, n}, -1, 1, 2, DType::BF16);
  const Array wide_a = array_of(a), wide_b = array_of(b);
  Array want(Shape{m, n});
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t t = 0; t < k; ++t) {
        want[i * n + j] += wide_a[transpose_a ? t * m + i : i * k + t] *
                           wide_b[transpose_b ? j * k + t : t * n + j];
      }
    }
  }
  for (const bool cut_rows : {false, true}) {
    const cpu::MatmulShape shape{m, n, k, transpose_a, transpose_b, DType::BF16, cut_rows};
    const Tensor got = product(*cpu::make_emulated_amx_matmul(shape), a, b);
    EXPECT_TRUE(is_close(got, want, tolerance(DType::FP32, k))) << "cut_rows " << cut_rows;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AmxProductTest,
    testing::Values(AmxCase{1, 1, 1, false, true}, AmxCase{33, 31, 7, false, false},
                    AmxCase{65, 70, 33, true, false}, AmxCase{200, 64, 784, false, true},
                    AmxCase{45, 40, 1300, false, false}, AmxCase{300, 50, 200, true, false},
                    AmxCase{520, 33, 1301, true, false}));

TEST(AmxPackingTest, BothLayoutsGiveTheSameTiles) {
  constexpr std::int64_t kRows = 21, kTerms = 45;
  const Tensor by_row = Tensor::uniform({kRows, kTerms}, -1, 1, 3, DType::BF16);
  Tensor by_k({kTerms, kRows}, DType::BF16);
  const auto* from = static_cast<const std::uint16_t*>(by_row.raw());
  auto* to = static_cast<std::uint16_t*>(by_k.raw());
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t k = 0; k < kTerms; ++k) to[k * kRows + r] = from[r * kTerms + k];
  }
  const auto size = std::size_t(2 * cpu::kAmxRows * cpu::kAmxWords);  // 45 terms are two steps
  std::vector<float> first(size, kNan), second(size, kNan);
  cpu::pack_amx_block(from, kTerms, false, kRows, kTerms, first.data());
  cpu::pack_amx_block(to, kRows, true, kRows, kTerms, second.data());
  EXPECT_EQ(0, std::memcmp(first.data(), second.data(), size * sizeof(float)));
  // Row 2, term 35: step 1, word 1, its high half.
  const auto* terms = reinterpret_cast<const std::uint16_t*>(first.data());
  EXPECT_EQ(terms[((1 * cpu::kAmxRows + 2) * cpu::kAmxWords + 1) * 2 + 1], from[2 * kTerms + 35]);
}

}  // namespace
}  // namespace tr::test
