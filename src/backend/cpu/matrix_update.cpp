// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/matrix_update.h"

#include "core/check.h"

namespace tr::cpu {

std::unique_ptr<FcProduct> make_fp32_product(const MatmulShape& shape) {
  for (const MatmulEngine& engine : matmul_engines()) {
    if (engine.refuse(DType::FP32).empty())
      return std::make_unique<FcProduct>(engine, shape, false);
  }
  throw_as<InternalError>("no engine multiplies fp32 matrices");
}

void Products::add(const MatmulShape& shape) {
  auto& product = made_[key_of(shape)];
  if (!product) product = make_fp32_product(shape);
  scratch_bytes_ = std::max(scratch_bytes_, round_up(product->workspace_bytes(), kLineBytes));
}

void Products::run(const KernelArgs& args, const MatmulShape& shape, const float* a, const float* b,
                   float* c) const {
  made_.at(key_of(shape))->run(args, a, b, c, [](const MatmulTile&, float*) {});
}

double square_sum(const KernelArgs& args, const float* x, std::int64_t count, double* partial) {
  for_chunks(args.pool(), count, kNormChunk, [&](std::int64_t begin, std::int64_t end) {
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += double(x[i]) * double(x[i]);
    partial[begin / kNormChunk] = sum;
  });
  double sum = 0;
  for (std::int64_t i = 0; i < ceil_div(count, kNormChunk); ++i) sum += partial[i];
  return sum;
}

void add_scaled(const KernelArgs& args, float* a, float alpha, const float* b, float beta,
                std::int64_t count) {
  for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) a[i] = alpha * a[i] + beta * b[i];
  });
}

}  // namespace tr::cpu
