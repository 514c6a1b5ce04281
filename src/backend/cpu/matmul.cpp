// SPDX-License-Identifier: Apache-2.0
// matmul by the engines of fc. Many products are shared out among groups, each of which computes
// its own one after the other; few are cut into tiles for all threads. Which of the two, and the
// groups, depend on the shapes alone.
#include "ops/matmul.h"

#include <optional>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/fc_product.h"
#include "backend/cpu/float_rows.h"
#include "core/assert.h"

namespace tr::cpu {
namespace {

constexpr std::int64_t kManyProducts = 8, kMostGroups = 64, kLineBytes = 64;

MatmulGeometry geometry_of(const KernelQuery& query) {
  return matmul_geometry(query.attrs, query.in[0].shape, query.in[1].shape);
}

MatmulShape shape_of(const MatmulGeometry& g, DType dtype) {
  return {g.m, g.n, g.k, g.transpose_a, g.transpose_b, dtype, false};
}

bool has_work(const MatmulGeometry& g) { return g.y.num_elements() > 0 && g.k > 0; }

/// Products of one shape, one after the other, with memory of its own.
class SerialProduct {
 public:
  SerialProduct(const MatmulEngine& engine, MatmulShape shape, bool narrow)
      : stored_(shape.dtype), narrow_(narrow) {
    if (engine.widens) shape.dtype = DType::FP32;
    matmul_ = engine.make(shape);
    reserve(matmul_->scratch_bytes());
    shared_ = reserve(matmul_->shared_bytes());
    const auto wide = std::int64_t(engine.widens ? sizeof(float) : 0);
    a_ = reserve(shape.m * shape.k * wide);
    b_ = reserve(shape.k * shape.n * wide);
    c_ = reserve(narrow ? shape.m * shape.n * std::int64_t(sizeof(float)) : 0);
  }
  std::int64_t bytes() const { return bytes_; }

  /// c, of dtype `stored` if narrow, else fp32.
  void run(const std::byte* a, const std::byte* b, std::byte* c, std::byte* memory) const {
    const MatmulShape& s = matmul_->shape();
    const void* left = widened(a, s.m * s.k, memory + a_);
    const void* right = widened(b, s.k * s.n, memory + b_);
    auto* result = reinterpret_cast<float*>(narrow_ ? memory + c_ : c);
    std::byte* shared = memory + shared_;
    for (std::int64_t i = 0; i < matmul_->num_setup_tasks(); ++i) {
      matmul_->run_setup(i, left, right, shared);
    }
    for (std::int64_t i = 0; i < matmul_->num_tiles(); ++i) {
      matmul_->run_tile(i, left, right, result, shared, memory);
    }
    if (!narrow_) return;
    dispatch_float(stored_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      store_floats(result, reinterpret_cast<T*>(c), s.m * s.n);
    });
  }

 private:
  std::int64_t reserve(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += round_up(bytes, kLineBytes);
    return offset;
  }
  const void* widened(const std::byte* data, std::int64_t count, std::byte* memory) const {
    if (stored_ == matmul_->shape().dtype) return data;
    dispatch_float(stored_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      load_floats(reinterpret_cast<const T*>(data), reinterpret_cast<float*>(memory), count);
    });
    return memory;
  }

  DType stored_;
  bool narrow_;
  std::unique_ptr<TiledMatmul> matmul_;
  std::int64_t shared_ = 0, a_ = 0, b_ = 0, c_ = 0, bytes_ = 0;
};

class Matmul final : public PreparedKernel {
 public:
  Matmul(const MatmulEngine& engine, const KernelQuery& query)
      : geometry_(geometry_of(query)), dtype_(query.in[0].dtype) {
    if (!has_work(geometry_)) return;
    const MatmulShape shape = shape_of(geometry_, dtype_);
    const bool narrow = dtype_ != DType::FP32;
    const std::int64_t products = geometry_.num_products();
    if (products < kManyProducts) {
      whole_.emplace(engine, shape, narrow);
      return;
    }
    // oneDNN's primitives carry addresses: every group has its own.
    for (std::int64_t i = 0; i < std::min(products, kMostGroups); ++i) {
      groups_.emplace_back(engine, shape, narrow);
    }
  }

  std::int64_t workspace_bytes() const {
    if (whole_) return whole_->workspace_bytes();
    return groups_.empty() ? 0 : std::int64_t(groups_.size()) * groups_[0].bytes();
  }

  void run(const KernelArgs& args) const override {
    if (!has_work(geometry_)) return clear(args);
    const auto bytes = std::int64_t(size_of(dtype_));
    const std::int64_t m = geometry_.m, n = geometry_.n, k = geometry_.k;
    const auto product = [&](std::int64_t index, auto&& call) {
      const auto [a, b] = geometry_.operands(index);
      call(args.in<std::byte>(0) + a * m * k * bytes, args.in<std::byte>(1) + b * k * n * bytes,
           args.out<std::byte>(0) + index * m * n * bytes);
    };
    const std::int64_t products = geometry_.num_products();
    if (whole_) {
      for (std::int64_t i = 0; i < products; ++i) {
        product(i, [&](const std::byte* a, const std::byte* b, std::byte* c) {
          run_whole(args, a, b, c);
        });
      }
      return;
    }
    const auto count = std::int64_t(groups_.size());
    for_tasks(args.pool(), count, [&](std::int64_t group) {
      const SerialProduct& own = groups_[std::size_t(group)];
      std::byte* memory = args.workspace() + group * own.bytes();
      for (std::int64_t i = group * products / count; i < (group + 1) * products / count; ++i) {
        product(i, [&](const std::byte* a, const std::byte* b, std::byte* c) {
          own.run(a, b, c, memory);
        });
      }
    });
  }

 private:
  void run_whole(const KernelArgs& args, const std::byte* a, const std::byte* b,
                 std::byte* c) const {
    if (dtype_ == DType::FP32) {
      whole_->run(args, a, b, reinterpret_cast<float*>(c), [](const MatmulTile&, float*) {});
      return;
    }
    dispatch_float(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const std::int64_t n = geometry_.n;
      whole_->run(args, a, b, nullptr, [&](const MatmulTile& tile, float* result) {
        for (std::int64_t r = tile.row; r < tile.row + tile.num_rows; ++r) {
          const std::int64_t at = r * n + tile.column;
          store_floats(result + at, reinterpret_cast<T*>(c) + at, tile.num_columns);
        }
      });
    });
  }
  /// A sum of no terms is 0.
  void clear(const KernelArgs& args) const {
    std::fill_n(args.out<std::byte>(0), bytes_of(args.out_type(0)), std::byte{0});
  }

  MatmulGeometry geometry_;
  DType dtype_;
  std::optional<FcProduct> whole_;
  std::vector<SerialProduct> groups_;
};

std::string refuse(const MatmulEngine& engine, const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
  return engine.refuse(dtype);
}

KernelDef matmul_kernel(const MatmulEngine& engine) {
  KernelDef def;
  def.op = "matmul";
  def.name = "cpu.matmul." + engine.name;
  def.refuse = [&engine](const KernelQuery& query) { return refuse(engine, query); };
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return Matmul(engine, query).workspace_bytes();
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Matmul>(engine, query);
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const MatmulEngine& engine : matmul_engines()) {
    all.emplace_back(matmul_kernel(engine), engine.priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cpu
