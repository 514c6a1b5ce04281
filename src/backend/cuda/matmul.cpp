// SPDX-License-Identifier: Apache-2.0
// matmul by the engines of fc: one launch for the innermost axis of the batch, others one after the
// other.
#include "ops/matmul.h"

#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr::cuda {
namespace {

MatmulGeometry geometry_of(const KernelQuery& query) {
  return matmul_geometry(query.attrs, query.in[0].shape, query.in[1].shape);
}

ProductShape shape_of(const MatmulGeometry& g, DType dtype) {
  ProductShape shape{.m = g.m,
                     .n = g.n,
                     .k = g.k,
                     .transpose_a = g.transpose_a,
                     .transpose_b = g.transpose_b,
                     .dtype = dtype,
                     .result = dtype};
  if (!g.batch.empty()) {
    shape.batch = g.batch.back().count;
    shape.a_stride = g.batch.back().a_step * g.m * g.k;
    shape.b_stride = g.batch.back().b_step * g.k * g.n;
  }
  return shape;
}

/// Where products of more than one axis begin must suit cuBLASLt, which was told that operands are
/// aligned.
std::string refuse_places(const MatmulGeometry& g, const ProductShape& shape) {
  constexpr std::int64_t kAligned = 16;
  const auto bytes = std::int64_t(size_of(shape.dtype));
  if (g.batch.size() < 2) return "";
  for (const std::int64_t elements : {g.m * g.k, g.k * g.n, g.m * g.n}) {
    if (elements * bytes % kAligned != 0) {
      return fmt::format("a matrix has {} bytes, expected a multiple of {}", elements * bytes,
                         kAligned);
    }
  }
  return "";
}

class Matmul final : public PreparedKernel {
 public:
  Matmul(const ProductEngine& engine, const KernelQuery& query)
      : geometry_(geometry_of(query)),
        shape_(shape_of(geometry_, query.in[0].dtype)),
        product_(engine.make(shape_, Fused::NONE, "")) {
    if (product_ != nullptr) return;
    log_warning(
        "{} has no algorithm for {} {} products [{}, {}] x [{}, {}]; a slower kernel runs them",
        engine.name, shape_.batch, shape_.dtype, shape_.m, shape_.k, shape_.k, shape_.n);
    product_ = simt_engine().make(shape_, Fused::NONE, "");
  }

  void run(const KernelArgs& args) const override {
    const auto bytes = std::int64_t(size_of(shape_.dtype));
    for (std::int64_t i = 0; i < geometry_.num_products(); i += shape_.batch) {
      const auto [a, b] = geometry_.operands(i);
      product_->run(args, {.a = args.in<std::byte>(0) + a * shape_.m * shape_.k * bytes,
                           .b = args.in<std::byte>(1) + b * shape_.k * shape_.n * bytes,
                           .c = args.out<std::byte>(0) + i * shape_.result_elements() * bytes,
                           .workspace = args.workspace()});
    }
  }

 private:
  MatmulGeometry geometry_;
  ProductShape shape_;
  std::unique_ptr<Product> product_;
};

KernelDef matmul_kernel(const ProductEngine& engine) {
  KernelDef def;
  def.op = "matmul";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.matmul." + engine.name;
  def.refuse = [&engine](const KernelQuery& query) -> std::string {
    const DType dtype = query.in[0].dtype;
    if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
    const MatmulGeometry geometry = geometry_of(query);
    const ProductShape shape = shape_of(geometry, dtype);
    const std::string places = &engine == &simt_engine() ? "" : refuse_places(geometry, shape);
    return places.empty() ? engine.refuse(shape) : places;
  };
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return engine.workspace_bytes(shape_of(geometry_of(query), query.in[0].dtype));
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Matmul>(engine, query);
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const ProductEngine* engine :
       {&cublaslt_engine(), &cublaslt_tf32_engine(), &simt_engine()}) {
    all.emplace_back(matmul_kernel(*engine), engine->priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cuda
