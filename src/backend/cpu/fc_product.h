// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/cpu/partition.h"
#include "backend/cpu/tiled_matmul.h"
#include "backend/kernel.h"

namespace tr::cpu {

/// What computes the products of the fc family.
struct MatmulEngine {
  std::string name;  // "onednn"
  int priority = 0;
  /// Empty: it multiplies operands of this storage dtype; else why not.
  std::function<std::string(DType)> refuse;
  std::unique_ptr<TiledMatmul> (*make)(const MatmulShape&) = nullptr;
  bool widens = false;  // operands are made fp32 beforehand
};

/// All engines, best first.
const std::vector<MatmulEngine>& matmul_engines();

/// One product of the fc family, made ready: the workspace holds scratch of the tiles, widened
/// operands, and the fp32 result where the output is stored in 16 bits.
class FcProduct {
 public:
  /// `shape.dtype` is the operands' storage; `narrow_result` asks for an fp32 result in the
  /// workspace.
  FcProduct(const MatmulEngine& engine, MatmulShape shape, bool narrow_result);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  const MatmulShape& shape() const { return matmul_->shape(); }
  /// Computes `a` x `b` and calls epilogue(tile, result) for each tile while it is hot; `result` is
  /// the start of the whole fp32 result: `c`, or in the workspace if c is null.
  template <typename Epilogue>
  void run(const KernelArgs& args, const void* a, const void* b, float* c,
           Epilogue&& epilogue) const;

 private:
  const void* widened(const KernelArgs& args, const void* data, std::int64_t count,
                      std::int64_t offset) const;
  std::byte* scratch(const KernelArgs& args, std::int64_t tile, int thread) const;

  std::unique_ptr<TiledMatmul> matmul_;
  DType stored_;
  std::int64_t shared_offset_ = 0;
  std::int64_t a_offset_ = 0;
  std::int64_t b_offset_ = 0;
  std::int64_t result_offset_ = 0;
  std::int64_t workspace_bytes_ = 0;
};

template <typename Epilogue>
void FcProduct::run(const KernelArgs& args, const void* a, const void* b, float* c,
                    Epilogue&& epilogue) const {
  const MatmulShape& s = shape();
  a = widened(args, a, s.m * s.k, a_offset_);
  b = widened(args, b, s.k * s.n, b_offset_);
  if (c == nullptr) c = reinterpret_cast<float*>(args.workspace() + result_offset_);
  std::byte* shared = args.workspace() + shared_offset_;
  for_tasks(args.pool(), matmul_->num_setup_tasks(),
            [&](std::int64_t setup) { matmul_->run_setup(setup, a, b, shared); });
  auto task = [&](std::int64_t tile, int thread) {
    matmul_->run_tile(tile, a, b, c, shared, scratch(args, tile, thread));
    epilogue(matmul_->tile(tile), c);
  };
  if (matmul_->num_tiles() == 1) return task(0, 0);
  args.pool().run(matmul_->num_tiles(), TaskRef(task));
}

}  // namespace tr::cpu
