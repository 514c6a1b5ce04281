// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "backend/cuda/launch.h"
#include "backend/cuda/muon.h"
#include "core/log.h"

namespace tr::cuda::optimizer {
namespace {

using ops::Matrix;

constexpr std::int64_t kAlign = 256;

ProductShape product_of(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a,
                        bool transpose_b, DType result) {
  return {m, n, k, transpose_a, transpose_b, DType::BF16, result};
}

/// gram, square, apply of a matrix.
std::array<ProductShape, 3> products_of(const Matrix& m) {
  const bool tall = m.rows > m.columns;
  const std::int64_t side = std::min(m.rows, m.columns), other = std::max(m.rows, m.columns);
  return {product_of(side, side, other, tall, !tall, DType::BF16),
          product_of(side, side, side, false, false, DType::FP32),
          product_of(m.rows, m.columns, side, false, false, DType::FP32)};
}

/// cuBLASLt where it takes the shape and has an algorithm here, else our own kernel.
std::unique_ptr<Product> make_product(const ProductShape& shape) {
  if (cublaslt_engine().refuse(shape).empty()) {
    if (auto product = cublaslt_engine().make(shape, Fused::NONE, "")) return product;
  }
  log_info("muon: cuBLASLt has no algorithm for bf16 {} x {} x {}, our own kernel takes it",
           shape.m, shape.n, shape.k);
  return simt_engine().make(shape, Fused::NONE, "");
}

std::int64_t workspace_of(const ProductShape& shape) {
  std::int64_t bytes = 0;
  for (const ProductEngine* engine : {&cublaslt_engine(), &simt_engine()}) {
    if (engine->refuse(shape).empty()) bytes = std::max(bytes, engine->workspace_bytes(shape));
  }
  return bytes;
}

/// Byte offsets in the node's workspace, enough for each of its matrices in turn.
struct Layout {
  std::int64_t x = 0, gram = 0, sum = 0, norms = 0, scale = 0, products = 0, bytes = 0;

  explicit Layout(const std::vector<Matrix>& matrices) {
    std::int64_t elements = 0, squares = 0, num_norms = 0, product_bytes = 0;
    for (const Matrix& m : matrices) {
      const std::int64_t side = std::min(m.rows, m.columns);
      elements = std::max(elements, m.elements());
      squares = std::max(squares, side * side);
      num_norms = std::max(num_norms, muon_num_sums(m.elements()));
      for (const ProductShape& p : products_of(m))
        product_bytes = std::max(product_bytes, workspace_of(p));
    }
    const auto reserve = [&](std::int64_t wanted) {
      const std::int64_t at = bytes;
      bytes += ceil_div(wanted, kAlign) * kAlign;
      return at;
    };
    x = reserve(2 * elements);
    gram = reserve(2 * squares);
    sum = reserve(4 * elements);  // side * side <= rows * columns
    norms = reserve(8 * num_norms);
    scale = reserve(4);
    products = reserve(product_bytes);
  }
};

class Muon final : public PreparedKernel {
 public:
  explicit Muon(const KernelQuery& query)
      : matrices_(ops::matrices_of(query.attrs)), layout_(matrices_) {
    for (const Matrix& m : matrices_) {
      auto& made = products_[{m.rows, m.columns}];
      if (made[0]) continue;
      const auto shapes = products_of(m);
      for (std::size_t i = 0; i < shapes.size(); ++i) made[i] = make_product(shapes[i]);
    }
  }

  void run(const KernelArgs& args) const override {
    std::byte* base = args.workspace();
    const MuonBuffers buffers{base + layout_.x,
                              base + layout_.gram,
                              reinterpret_cast<float*>(base + layout_.sum),
                              reinterpret_cast<double*>(base + layout_.norms),
                              reinterpret_cast<float*>(base + layout_.scale),
                              base + layout_.products};
    for (const Matrix& m : matrices_) {
      const auto& made = products_.at({m.rows, m.columns});
      update_matrix(args, m, {made[0].get(), made[1].get(), made[2].get()}, buffers);
    }
    update_others(args);
  }

 private:
  std::vector<Matrix> matrices_;
  Layout layout_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::array<std::unique_ptr<Product>, 3>>
      products_;
};

KernelDef muon_kernel() {
  KernelDef def;
  def.op = "muon";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.muon";
  def.workspace_bytes = [](const KernelQuery& query) {
    return Layout(ops::matrices_of(query.attrs)).bytes;
  };
  def.prepare = [](const KernelQuery& query, int) { return std::make_unique<Muon>(query); };
  return def;
}

const KernelRegistration kMuon{muon_kernel()};

}  // namespace
}  // namespace tr::cuda::optimizer
