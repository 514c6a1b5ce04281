// SPDX-License-Identifier: Apache-2.0
// y = act(x W^T + b), dx = (dy W) * act'(gate), dW = dy^T x, db = sum over rows of dy. Bias,
// activation and db are the product's own epilogue where its engine offers that, else a kernel of
// ours after it; a 16-bit result is then rounded once, from an fp32 product in the workspace.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/workspace_layout.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr::cuda {
namespace {

std::int64_t num_rows(const TensorType& type) {
  const std::int64_t columns = type.shape.back();
  return columns == 0 ? 0 : type.shape.num_elements() / columns;
}

std::string activation_name(const Attrs& attrs) {
  return attrs.contains("activation") ? attrs.str("activation") : "";
}

float activation_alpha(const Attrs& attrs) {
  return attrs.contains("alpha") ? attrs.f32("alpha") : 0.0f;
}

/// A product and what is fused into it.
struct ChosenProduct {
  std::unique_ptr<Product> product;
  Fused fused = Fused::NONE;
};

/// With `wanted` fused if the engine has that, else alone. Which algorithms a device has is known
/// only there: if the engine has none, our own kernel takes the product, and the log says so.
ChosenProduct make_product(const ProductEngine& engine, const ProductShape& shape, Fused wanted) {
  if (wanted != Fused::NONE) {
    if (auto product = engine.make(shape, wanted)) return {std::move(product), wanted};
  }
  if (auto product = engine.make(shape, Fused::NONE)) return {std::move(product), Fused::NONE};
  log_warning("{} has no algorithm for the {} product [{}, {}] x [{}, {}]; a slower kernel runs it",
              engine.name, shape.dtype, shape.m, shape.k, shape.k, shape.n);
  return {simt_engine().make(shape, Fused::NONE), Fused::NONE};
}

/// Product of fc or fc_dx followed by an epilogue over its result.
struct FinishedShape {
  ProductShape product;  // its result: fp32 if an epilogue of ours may follow
  std::int64_t staging = 0;
  std::int64_t workspace_bytes = 0;
  DType stored = DType::FP32;
  bool staged = false;  // the product stands in the workspace, not in the result

  FinishedShape(const ProductEngine& engine, ProductShape shape, DType stored, bool finishes)
      : product(shape), stored(stored), staged(finishes && stored != DType::FP32) {
    product.result = finishes ? DType::FP32 : stored;
    WorkspaceLayout layout;
    layout.reserve(engine.workspace_bytes(product));
    if (staged) {
      staging = layout.reserve(product.result_elements() * std::int64_t(sizeof(float)));
    }
    workspace_bytes = layout.bytes();
  }
  void* place(const KernelArgs& args, void* result) const {
    return staged ? args.workspace() + staging : result;
  }
};

/// x [M, K] W [O, K]: y = x W^T
FinishedShape forward_shape(const ProductEngine& engine, const KernelQuery& query) {
  const TensorType& y = query.out[0];
  const ProductShape shape{.m = num_rows(y),
                           .n = query.in[1].shape[0],
                           .k = query.in[1].shape[1],
                           .transpose_b = true,
                           .dtype = query.in[0].dtype};
  const bool bias = query.in.size() > 2 && query.in[2].shape.rank() > 0;
  return {engine, shape, y.dtype, bias || !activation_name(query.attrs).empty()};
}

class Fc final : public PreparedKernel {
 public:
  static std::int64_t workspace_bytes(const ProductEngine& engine, const KernelQuery& query) {
    return forward_shape(engine, query).workspace_bytes;
  }
  static ProductShape shape_of(const ProductEngine& engine, const KernelQuery& query) {
    return forward_shape(engine, query).product;
  }

  Fc(const ProductEngine& engine, const KernelQuery& query)
      : shape_(forward_shape(engine, query)),
        epilogue_(find_epilogue(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)) {
    const std::string activation = activation_name(query.attrs);
    const bool bias = query.in.size() > 2 && query.in[2].shape.rank() > 0;
    finishes_ = bias || !activation.empty();
    Fused wanted = Fused::NONE;
    // cuBLASLt wants a bias of the result's dtype; ours is fp32.
    if (shape_.stored == DType::FP32) {
      if (activation.empty() && bias) wanted = Fused::BIAS;
      if (activation == "relu") wanted = bias ? Fused::BIAS_RELU : Fused::RELU;
    }
    chosen_ = make_product(engine, shape_.product, wanted);
    if (chosen_.fused != Fused::NONE) finishes_ = false;
  }

  void run(const KernelArgs& args) const override {
    auto* y = args.out<std::byte>(0);
    const float* bias = args.has_in(2) ? args.in<float>(2) : nullptr;
    void* product = shape_.place(args, y);
    chosen_.product->run(args, {.a = args.in<std::byte>(0),
                                .b = args.in<std::byte>(1),
                                .c = product,
                                .vector = const_cast<float*>(bias),
                                .workspace = args.workspace()});
    if (!finishes_) return;
    epilogue_->forward(args, {.product = static_cast<const float*>(product),
                              .bias = bias,
                              .result = y,
                              .dtype = shape_.stored,
                              .rows = shape_.product.m,
                              .columns = shape_.product.n,
                              .alpha = alpha_});
  }

 private:
  FinishedShape shape_;
  const Epilogue* epilogue_;
  float alpha_;
  bool finishes_ = false;
  ChosenProduct chosen_;
};

/// dy [M, O] W [O, K]: dx = dy W
FinishedShape dx_shape(const ProductEngine& engine, const KernelQuery& query) {
  const TensorType& dx = query.out[0];
  const ProductShape shape{.m = num_rows(dx),
                           .n = query.in[1].shape[1],
                           .k = query.in[1].shape[0],
                           .dtype = query.in[0].dtype};
  return {engine, shape, dx.dtype, !activation_name(query.attrs).empty()};
}

class FcDx final : public PreparedKernel {
 public:
  static std::int64_t workspace_bytes(const ProductEngine& engine, const KernelQuery& query) {
    return dx_shape(engine, query).workspace_bytes;
  }
  static ProductShape shape_of(const ProductEngine& engine, const KernelQuery& query) {
    return dx_shape(engine, query).product;
  }

  FcDx(const ProductEngine& engine, const KernelQuery& query)
      : shape_(dx_shape(engine, query)),
        epilogue_(find_epilogue(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)),
        finishes_(!activation_name(query.attrs).empty()),
        chosen_(make_product(engine, shape_.product, Fused::NONE)) {}

  void run(const KernelArgs& args) const override {
    auto* dx = args.out<std::byte>(0);
    void* product = shape_.place(args, dx);
    chosen_.product->run(args, {.a = args.in<std::byte>(0),
                                .b = args.in<std::byte>(1),
                                .c = product,
                                .workspace = args.workspace()});
    if (!finishes_) return;
    epilogue_->backward(args, {.product = static_cast<const float*>(product),
                               .gate = args.in<std::byte>(2),
                               .result = dx,
                               .dtype = shape_.stored,
                               .rows = shape_.product.m,
                               .columns = shape_.product.n,
                               .alpha = alpha_});
  }

 private:
  FinishedShape shape_;
  const Epilogue* epilogue_;
  float alpha_;
  bool finishes_;
  ChosenProduct chosen_;
};

/// dy [M, O] x [M, K]: dW = dy^T x
struct DweightShape {
  ProductShape product;
  ColumnSums sums;
  std::int64_t partials = 0;
  std::int64_t workspace_bytes = 0;

  DweightShape(const ProductEngine& engine, const KernelQuery& query) {
    const TensorType &dy = query.in[0], &x = query.in[1];
    const std::int64_t rows = num_rows(dy);
    product = {.m = dy.shape.back(),
               .n = x.shape.back(),
               .k = rows,
               .transpose_a = true,
               .dtype = dy.dtype};
    sums = {rows, dy.shape.back(), dy.dtype};
    WorkspaceLayout layout;
    layout.reserve(engine.workspace_bytes(product));
    if (query.out.size() > 1) partials = layout.reserve(sums.workspace_bytes());
    workspace_bytes = layout.bytes();
  }
};

class FcDweight final : public PreparedKernel {
 public:
  static std::int64_t workspace_bytes(const ProductEngine& engine, const KernelQuery& query) {
    return DweightShape(engine, query).workspace_bytes;
  }
  static ProductShape shape_of(const ProductEngine& engine, const KernelQuery& query) {
    return DweightShape(engine, query).product;
  }

  FcDweight(const ProductEngine& engine, const KernelQuery& query)
      : shape_(engine, query),
        chosen_(make_product(engine, shape_.product,
                             query.out.size() > 1 ? Fused::COLUMN_SUMS : Fused::NONE)) {}

  void run(const KernelArgs& args) const override {
    float* dbias = args.num_out() > 1 ? args.out<float>(1) : nullptr;
    const auto* dy = args.in<std::byte>(0);
    chosen_.product->run(args, {.a = dy,
                                .b = args.in<std::byte>(1),
                                .c = args.out<float>(0),
                                .vector = dbias,
                                .workspace = args.workspace()});
    if (dbias != nullptr && chosen_.fused == Fused::NONE) {
      shape_.sums.run(args, dy, dbias, args.workspace() + shape_.partials);
    }
  }

 private:
  DweightShape shape_;
  ChosenProduct chosen_;
};

template <typename Kernel>
std::string refuse(const ProductEngine& engine, const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
  if (query.in[1].dtype != dtype) {
    return fmt::format("operands are {} and {}, expected one dtype", dtype, query.in[1].dtype);
  }
  const std::string activation = activation_name(query.attrs);
  if (find_epilogue(activation) == nullptr) {
    return fmt::format("there is no epilogue of activation '{}'", activation);
  }
  return engine.refuse(Kernel::shape_of(engine, query));
}

template <typename Kernel>
KernelDef fc_kernel(const std::string& op, const ProductEngine& engine) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = "cuda." + op + "." + engine.name;
  def.refuse = [&engine](const KernelQuery& query) { return refuse<Kernel>(engine, query); };
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return Kernel::workspace_bytes(engine, query);
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(engine, query);
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const ProductEngine* engine :
       {&cublaslt_tf32_engine(), &cublaslt_engine(), &simt_engine()}) {
    all.emplace_back(fc_kernel<Fc>("fc", *engine), engine->priority);
    all.emplace_back(fc_kernel<FcDx>("fc_dx", *engine), engine->priority);
    all.emplace_back(fc_kernel<FcDweight>("fc_dweight", *engine), engine->priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cuda
