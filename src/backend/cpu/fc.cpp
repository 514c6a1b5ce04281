// SPDX-License-Identifier: Apache-2.0
// y = act(x W^T + b), dx = (dy W) * act'(gate), dW = dy^T x, db = sum over rows of dy. Bias,
// activation and its derivative are applied to each tile of the product while it is in the cache.
#include "backend/cpu/activation_rows.h"
#include "backend/cpu/dispatch.h"
#include "backend/cpu/fc_product.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

std::int64_t num_rows(const TensorType& type) {
  const std::int64_t columns = type.shape.back();
  return columns == 0 ? 0 : type.shape.num_elements() / columns;
}

const std::string& activation_name(const Attrs& attrs) {
  static const std::string none;
  return attrs.contains("activation") ? attrs.str("activation") : none;
}

float activation_alpha(const Attrs& attrs) {
  return attrs.contains("alpha") ? attrs.f32("alpha") : 0.0f;
}

std::string refuse_operands(const MatmulEngine& engine, const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
  if (query.in[1].dtype != dtype) {
    return fmt::format("operands are {} and {}, expected one dtype", dtype, query.in[1].dtype);
  }
  const std::string& activation = activation_name(query.attrs);
  if (!activation.empty() && find_activation(activation) == nullptr) {
    return fmt::format("there are no rows of activation '{}'", activation);
  }
  if (query.in.size() > 2 && query.in[2].dtype == DType::UINT8) return "it takes no masks";
  return engine.refuse(dtype);
}

/// x [M, K] W [O, K]: y = x W^T
MatmulShape forward_shape(const KernelQuery& query) {
  const std::int64_t m = num_rows(query.in[0]);
  return {m, query.in[1].shape[0], query.in[1].shape[1], false, true, query.in[0].dtype, false};
}
/// dy [M, O] W [O, K]: dx = dy W
MatmulShape dx_shape(const KernelQuery& query) {
  const std::int64_t m = num_rows(query.in[0]);
  return {m, query.in[1].shape[1], query.in[1].shape[0], false, false, query.in[0].dtype, false};
}
/// dy [M, O] x [M, K]: dW = dy^T x
MatmulShape dweight_shape(const KernelQuery& query) {
  return {query.in[0].shape.back(), query.in[1].shape.back(), num_rows(query.in[0]), true, false,
          query.in[0].dtype,        /*cut_rows=*/true};
}

bool is_narrow(const TensorType& type) { return type.dtype != DType::FP32; }

/// Calls f(row start in the result, element offset, count) for each row of a tile, cut to
/// kRowBlock.
template <typename F>
void for_rows(const MatmulTile& tile, std::int64_t ld, float* result, F&& f) {
  for (std::int64_t r = tile.row; r < tile.row + tile.num_rows; ++r) {
    for (std::int64_t c = 0; c < tile.num_columns; c += kRowBlock) {
      const std::int64_t column = tile.column + c;
      f(result + r * ld + column, r * ld + column, column,
        std::min(kRowBlock, tile.num_columns - c));
    }
  }
}

class Fc final : public PreparedKernel {
 public:
  Fc(const MatmulEngine& engine, const KernelQuery& query)
      : product_(engine, forward_shape(query), is_narrow(query.out[0])),
        activation_(find_activation(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)) {}

  std::int64_t workspace_bytes() const { return product_.workspace_bytes(); }

  void run(const KernelArgs& args) const override {
    dispatch_float(args.out_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* y = args.out<T>(0);
      float* c = nullptr;
      if constexpr (std::is_same_v<T, float>) c = y;
      const float* bias = args.has_in(2) ? args.in<float>(2) : nullptr;
      const auto finish = [&](const MatmulTile& tile, float* result) {
        for_rows(tile, product_.shape().n, result,
                 [&](float* row, std::int64_t at, std::int64_t column, std::int64_t n) {
                   finish_row(row, bias == nullptr ? nullptr : bias + column, n);
                   if constexpr (!std::is_same_v<T, float>) store_floats(row, y + at, n);
                 });
      };
      product_.run(args, args.in<std::byte>(0), args.in<std::byte>(1), c, finish);
    });
  }

 private:
  void finish_row(float* row, const float* bias, std::int64_t n) const {
    if (bias != nullptr) {
      for (std::int64_t i = 0; i < n; ++i) row[i] += bias[i];
    }
    if (activation_ != nullptr) activation_->forward(row, row, n, alpha_);
  }

  FcProduct product_;
  const ActivationRows* activation_;
  float alpha_;
};

class FcDx final : public PreparedKernel {
 public:
  FcDx(const MatmulEngine& engine, const KernelQuery& query)
      : product_(engine, dx_shape(query), is_narrow(query.out[0])),
        activation_(find_activation(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)) {}

  std::int64_t workspace_bytes() const { return product_.workspace_bytes(); }

  void run(const KernelArgs& args) const override {
    dispatch_float(args.out_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* dx = args.out<T>(0);
      const T* gate = args.has_in(2) ? args.in<T>(2) : nullptr;
      float* c = nullptr;
      if constexpr (std::is_same_v<T, float>) c = dx;
      const auto finish = [&](const MatmulTile& tile, float* result) {
        for_rows(tile, product_.shape().n, result,
                 [&](float* row, std::int64_t at, std::int64_t, std::int64_t n) {
                   float widened[kRowBlock];
                   if (activation_ != nullptr) {
                     const float* saved = as_floats(gate + at, widened, n);
                     activation_->backward(saved, row, row, n, alpha_);
                   }
                   if constexpr (!std::is_same_v<T, float>) store_floats(row, dx + at, n);
                 });
      };
      product_.run(args, args.in<std::byte>(0), args.in<std::byte>(1), c, finish);
    });
  }

 private:
  FcProduct product_;
  const ActivationRows* activation_;
  float alpha_;
};

class FcDweight final : public PreparedKernel {
 public:
  FcDweight(const MatmulEngine& engine, const KernelQuery& query)
      : product_(engine, dweight_shape(query), false) {}

  std::int64_t workspace_bytes() const { return product_.workspace_bytes(); }

  void run(const KernelArgs& args) const override {
    dispatch_float(args.in_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T* dy = args.in<T>(0);
      float* dbias = args.num_out() > 1 ? args.out<float>(1) : nullptr;
      const auto finish = [&](const MatmulTile& tile, float*) {
        if (dbias != nullptr && tile.column == 0) sum_rows(dy, dbias, tile);
      };
      product_.run(args, args.in<std::byte>(0), args.in<std::byte>(1), args.out<float>(0), finish);
    });
  }

 private:
  /// dbias[o] = sum over samples of dy[., o], one after the other, for the outputs of `tile`.
  template <typename T>
  void sum_rows(const T* dy, float* dbias, const MatmulTile& tile) const {
    const std::int64_t ld = product_.shape().m;
    for (std::int64_t c = 0; c < tile.num_rows; c += kRowBlock) {
      const std::int64_t column = tile.row + c;
      const std::int64_t n = std::min(kRowBlock, tile.num_rows - c);
      float widened[kRowBlock];
      std::fill_n(dbias + column, n, 0.0f);
      for (std::int64_t r = 0; r < product_.shape().k; ++r) {
        const float* row = as_floats(dy + r * ld + column, widened, n);
        for (std::int64_t i = 0; i < n; ++i) dbias[column + i] += row[i];
      }
    }
  }

  FcProduct product_;
};

template <typename Kernel>
KernelDef fc_kernel(const std::string& op, const MatmulEngine& engine) {
  KernelDef def;
  def.op = op;
  def.name = "cpu." + op + "." + engine.name;
  def.refuse = [&engine](const KernelQuery& query) { return refuse_operands(engine, query); };
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return Kernel(engine, query).workspace_bytes();
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(engine, query);
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const MatmulEngine& engine : matmul_engines()) {
    all.emplace_back(fc_kernel<Fc>("fc", engine), engine.priority);
    all.emplace_back(fc_kernel<FcDx>("fc_dx", engine), engine.priority);
    all.emplace_back(fc_kernel<FcDweight>("fc_dweight", engine), engine.priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cpu
