// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/fc_product.h"

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/packed_matmul.h"
#include "backend/cpu/partition.h"
#include "core/cpu_info.h"

namespace tr::cpu {
namespace {

constexpr std::int64_t kLineBytes = 64;

std::string onednn_refuses(DType dtype) {
  if (dtype == DType::FP32) return "";
  if (dtype == DType::BF16) {
    return onednn_has_native_bf16() ? "" : "the processor has no bf16 instructions (avx512_bf16)";
  }
  return fmt::format("{} operands are computed in fp32", name_of(dtype));
}

std::string packed_refuses(DType dtype) {
  if (has_packed_matmul(dtype)) return "";
  if (dtype == DType::FP32) return "the processor has no AVX-512";
  if (dtype == DType::BF16) return "the processor has no bf16 instructions (avx512_bf16)";
  return fmt::format("{} operands are computed in fp32", name_of(dtype));
}

std::string amx_refuses(DType dtype) {
  if (dtype != DType::BF16) return fmt::format("{} operands, tiles take bf16", name_of(dtype));
  return may_use_amx_bf16() ? "" : "the processor has no AMX tiles, or the system keeps them";
}

std::string widened_refuses(DType dtype) {
  if (dtype == DType::FP16 || dtype == DType::BF16) return "";
  return fmt::format("{} operands need no widening", name_of(dtype));
}

std::string packed_widened_refuses(DType dtype) {
  const std::string reason = widened_refuses(dtype);
  return reason.empty() ? packed_refuses(DType::FP32) : reason;
}

}  // namespace

const std::vector<MatmulEngine>& matmul_engines() {
  static const std::vector<MatmulEngine> engines = {
      {"amx", 30, amx_refuses, make_amx_matmul, false},
      {"packed", 20, packed_refuses, make_packed_matmul, false},
      {"onednn", 10, onednn_refuses, make_onednn_matmul, false},
      {"packed_widened", 5, packed_widened_refuses, make_packed_matmul, true},
      {"widened", 0, widened_refuses, make_onednn_matmul, true},
  };
  return engines;
}

FcProduct::FcProduct(const MatmulEngine& engine, MatmulShape shape, bool narrow_result)
    : stored_(shape.dtype) {
  if (engine.widens) shape.dtype = DType::FP32;
  matmul_ = engine.make(shape);
  const auto reserve = [&](std::int64_t bytes) {
    const std::int64_t offset = workspace_bytes_;
    workspace_bytes_ += round_up(bytes, kLineBytes);
    return offset;
  };
  reserve(matmul_->num_tiles() * matmul_->scratch_bytes());
  shared_offset_ = reserve(matmul_->shared_bytes());
  if (engine.widens) {
    a_offset_ = reserve(shape.m * shape.k * std::int64_t(sizeof(float)));
    b_offset_ = reserve(shape.k * shape.n * std::int64_t(sizeof(float)));
  }
  if (narrow_result) result_offset_ = reserve(shape.m * shape.n * std::int64_t(sizeof(float)));
}

const void* FcProduct::widened(const KernelArgs& args, const void* data, std::int64_t count,
                               std::int64_t offset) const {
  if (stored_ == shape().dtype) return data;
  auto* wide = reinterpret_cast<float*>(args.workspace() + offset);
  dispatch_float(stored_, [&](auto tag) {
    const auto* narrow = static_cast<const typename decltype(tag)::type*>(data);
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
      load_floats(narrow + begin, wide + begin, end - begin);
    });
  });
  return wide;
}

// Threads that are few reuse the same scratch for tile after tile, so that it stays in their cache.
std::byte* FcProduct::scratch(const KernelArgs& args, std::int64_t tile, int thread) const {
  const bool by_thread = args.pool().num_threads() <= matmul_->num_tiles();
  return args.workspace() + (by_thread ? thread : tile) * matmul_->scratch_bytes();
}

}  // namespace tr::cpu
