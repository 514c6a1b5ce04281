// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <memory>

#include "backend/cuda/device_table.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/muon.h"
#include "backend/cuda/workspace_layout.h"
#include "core/log.h"
#include "ops/muon.h"

namespace tr::cuda::optimizer {
namespace {

using ops::Matrix;

/// Of X and A of matrices that are worked on together, unless a single one takes more.
constexpr std::int64_t kGroupBytes = 256 << 20;
constexpr std::int64_t kMostMatrices = 65535;  // of a grid

/// Matrices of one shape.
struct Group {
  std::int64_t rows, columns;
  std::vector<std::int64_t> begins;

  std::int64_t count() const { return std::int64_t(begins.size()); }
  std::int64_t elements() const { return rows * columns; }
  std::int64_t side() const { return std::min(rows, columns); }
  /// Of bf16, each of them twice.
  std::int64_t bytes() const { return 4 * count() * (elements() + side() * side()); }
  /// Matrices that do not end where 16 bytes do are multiplied one by one.
  bool takes(const Matrix& m) const {
    constexpr std::int64_t kEven = 8;
    return m.rows == rows && m.columns == columns && elements() % kEven == 0 &&
           side() * side() % kEven == 0 && count() < kMostMatrices &&
           bytes() + bytes() / count() <= kGroupBytes;
  }

  /// gram, square, apply.
  std::array<ProductShape, 3> products() const {
    const bool tall = rows > columns;
    const std::int64_t other = std::max(rows, columns), square = side() * side();
    ProductShape gram = product(side(), side(), other, elements(), elements());
    gram.transpose_a = tall;
    gram.transpose_b = !tall;
    ProductShape of_gram = product(side(), side(), side(), square, square);
    of_gram.alpha = kMuonC;
    of_gram.beta = kMuonB;
    ProductShape apply =
        product(rows, columns, side(), tall ? elements() : square, tall ? square : elements());
    apply.beta = kMuonA;
    return {gram, of_gram, apply};
  }

 private:
  ProductShape product(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_stride,
                       std::int64_t b_stride) const {
    return {.m = m,
            .n = n,
            .k = k,
            .dtype = DType::BF16,
            .result = DType::BF16,
            .batch = count(),
            .a_stride = a_stride,
            .b_stride = b_stride};
  }
};

/// The matrices by shape, in the order in which shapes first appear.
std::vector<Group> groups_of(const std::vector<Matrix>& matrices) {
  std::vector<Group> groups;
  for (const Matrix& m : matrices) {
    const auto found = std::find_if(groups.begin(), groups.end(),
                                    [&](const Group& group) { return group.takes(m); });
    if (found != groups.end()) {
      found->begins.push_back(m.begin);
    } else {
      groups.push_back({m.rows, m.columns, {m.begin}});
    }
  }
  return groups;
}

/// cuBLASLt where it takes the shape and has an algorithm here, else our own kernel.
std::unique_ptr<Product> make_product(const ProductShape& shape) {
  if (cublaslt_engine().refuse(shape).empty()) {
    if (auto product = cublaslt_engine().make(shape, Fused::NONE, "")) return product;
  }
  log_info(
      "muon: cuBLASLt has no algorithm for {} products of bf16 {} x {} x {}, our own kernel "
      "takes them",
      shape.batch, shape.m, shape.n, shape.k);
  return simt_engine().make(shape, Fused::NONE, "");
}

std::int64_t workspace_of(const ProductShape& shape) {
  std::int64_t bytes = 0;
  for (const ProductEngine* engine : {&cublaslt_engine(), &simt_engine()}) {
    if (engine->refuse(shape).empty()) bytes = std::max(bytes, engine->workspace_bytes(shape));
  }
  return bytes;
}

/// Byte offsets in the node's workspace, enough for each of its groups in turn.
struct Layout {
  std::int64_t x, next_x, gram, square, norms, scales, products, bytes;

  explicit Layout(const std::vector<Group>& groups) {
    std::int64_t elements = 0, squares = 0, num_norms = 0, count = 0, product_bytes = 0;
    for (const Group& group : groups) {
      elements = std::max(elements, group.count() * group.elements());
      squares = std::max(squares, group.count() * group.side() * group.side());
      num_norms = std::max(num_norms, group.count() * muon_num_sums(group.elements()));
      count = std::max(count, group.count());
      for (const ProductShape& p : group.products())
        product_bytes = std::max(product_bytes, workspace_of(p));
    }
    WorkspaceLayout parts;
    x = parts.reserve(2 * elements);
    next_x = parts.reserve(2 * elements);
    gram = parts.reserve(2 * squares);
    square = parts.reserve(2 * squares);
    norms = parts.reserve(8 * num_norms);
    scales = parts.reserve(4 * count);
    products = parts.reserve(product_bytes);
    bytes = parts.bytes();
  }
};

/// A group made ready for the device.
struct PreparedGroup {
  DeviceTable<std::int64_t> begins;
  MuonMatrices matrices;
  std::array<std::unique_ptr<Product>, 3> products;

  explicit PreparedGroup(const Group& group)
      : begins(group.begins), matrices{group.rows, group.columns, begins.data(), group.count()} {
    const auto shapes = group.products();
    for (std::size_t i = 0; i < shapes.size(); ++i) products[i] = make_product(shapes[i]);
  }
};

class Muon final : public PreparedKernel {
 public:
  explicit Muon(const std::vector<Group>& groups) : layout_(groups) {
    for (const Group& group : groups) groups_.emplace_back(group);
  }

  void run(const KernelArgs& args) const override {
    std::byte* base = args.workspace();
    const MuonBuffers buffers{base + layout_.x,
                              base + layout_.next_x,
                              base + layout_.gram,
                              base + layout_.square,
                              reinterpret_cast<double*>(base + layout_.norms),
                              reinterpret_cast<float*>(base + layout_.scales),
                              base + layout_.products};
    for (const PreparedGroup& group : groups_) {
      const auto& made = group.products;
      update_matrices(args, group.matrices, {made[0].get(), made[1].get(), made[2].get()}, buffers);
    }
    update_others(args);
  }

 private:
  Layout layout_;
  std::vector<PreparedGroup> groups_;
};

KernelDef muon_kernel() {
  KernelDef def;
  def.op = "muon";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.muon";
  def.workspace_bytes = [](const KernelQuery& query) {
    return Layout(groups_of(ops::matrices_of(query.attrs))).bytes;
  };
  def.prepare = [](const KernelQuery& query, int) {
    return std::make_unique<Muon>(groups_of(ops::matrices_of(query.attrs)));
  };
  return def;
}

const KernelRegistration kMuon{muon_kernel()};

}  // namespace
}  // namespace tr::cuda::optimizer
