// SPDX-License-Identifier: Apache-2.0
// y = act(x W^T + b), dx = (dy W) * act'(gate), dW = dy^T x, db = sum over rows of dy. Bias,
// activation and db are the product's own epilogue where its engine offers that, else a kernel of
// ours after it; which form, and which algorithm of the engine, is what a config says.
#include <algorithm>
#include <optional>

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

constexpr std::int64_t kFloatBytes = sizeof(float);

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

/// How a product and what follows it are made.
enum class Form : std::uint8_t {
  PLAIN,    // nothing follows
  FUSED,    // the product writes the result's dtype; its engine does what follows, or what follows
            // changes no value but to zero (relu and its derivative)
  MASKED,   // a mask is made of relu's result, and the engine drops what it does not let through
  SEPARATE  // the product is fp32, in the workspace if the result is not; a kernel of ours follows
};

constexpr std::string_view kFormNames[] = {"plain", "fused", "masked", "separate"};

std::string_view name_of(Form form) { return kFormNames[std::size_t(form)]; }

/// "FORM" or "FORM ALGORITHM"
struct FormConfig {
  Form form = Form::PLAIN;
  std::string_view algorithm;

  static std::optional<FormConfig> parse(std::string_view config) {
    const EngineText parts(config);
    for (const Form form : {Form::PLAIN, Form::FUSED, Form::MASKED, Form::SEPARATE}) {
      if (parts.kernel == name_of(form)) return FormConfig{form, parts.config};
    }
    return std::nullopt;
  }
};

/// Everything that is decided for one form.
struct Plan {
  ProductShape product;
  Fused fused = Fused::NONE;
  Form form = Form::PLAIN;
  std::int64_t extra = 0;  // place of what follows, behind the product's workspace
  std::int64_t workspace_bytes = 0;

  Plan(const ProductEngine& engine, const ProductShape& shape, Form form, Fused fused,
       std::int64_t extra_bytes)
      : product(shape), fused(fused), form(form) {
    WorkspaceLayout layout;
    layout.reserve(engine.workspace_bytes(product));
    extra = layout.reserve(extra_bytes);
    workspace_bytes = layout.bytes();
  }
};

/// A plan whose product the device has.
struct ChosenPlan {
  Plan plan;
  std::unique_ptr<Product> product;
};

/// By the query's config; without one the first form by rank that the engine has. Which algorithms
/// a device has is known only there: if the engine has none, our own kernel takes the product, and
/// the log says so. `Op` gives forms(query), the plainest last, and plan(engine, query, form).
template <typename Op>
ChosenPlan choose_plan(const ProductEngine& engine, const KernelQuery& query) {
  if (const auto config = FormConfig::parse(query.config)) {
    Plan plan = Op::plan(engine, query, config->form);
    auto product = engine.make(plan.product, plan.fused, config->algorithm);
    if (product == nullptr)
      throw_as<DeviceError>("{} does not have the algorithm '{}' here", engine.name, query.config);
    return {plan, std::move(product)};
  }
  for (const Form form : Op::forms(query)) {
    Plan plan = Op::plan(engine, query, form);
    if (auto product = engine.make(plan.product, plan.fused, "")) return {plan, std::move(product)};
  }
  const Plan plan = Op::plan(engine, query, Op::forms(query).back());
  const ProductShape& shape = plan.product;
  log_warning("{} has no algorithm for the {} product [{}, {}] x [{}, {}]; a slower kernel runs it",
              engine.name, shape.dtype, shape.m, shape.k, shape.k, shape.n);
  return {plan, simt_engine().make(shape, Fused::NONE, "")};
}

/// x [M, K] W [O, K]: y = x W^T
class Fc final : public PreparedKernel {
 public:
  static bool has_bias(const KernelQuery& query) {
    return query.in.size() > 2 && query.in[2].shape.rank() > 0;
  }
  static std::vector<Form> forms(const KernelQuery& query) {
    const std::string activation = activation_name(query.attrs);
    if (activation.empty() && !has_bias(query)) return {Form::PLAIN};
    if (activation.empty() || activation == "relu") return {Form::FUSED, Form::SEPARATE};
    return {Form::SEPARATE};
  }
  static Plan plan(const ProductEngine& engine, const KernelQuery& query, Form form) {
    const TensorType& y = query.out[0];
    ProductShape shape{.m = num_rows(y),
                       .n = query.in[1].shape[0],
                       .k = query.in[1].shape[1],
                       .transpose_b = true,
                       .dtype = query.in[0].dtype,
                       .result = y.dtype};
    const bool low = y.dtype != DType::FP32;
    if (form == Form::SEPARATE) {
      shape.result = DType::FP32;
      return {engine, shape, form, Fused::NONE, low ? shape.result_elements() * kFloatBytes : 0};
    }
    if (form == Form::PLAIN) return {engine, shape, form, Fused::NONE, 0};
    const Fused fused = has_bias(query) ? Fused::BIAS : Fused::NONE;
    // The library wants a bias of the result's dtype.
    return {engine, shape, form, fused, low && has_bias(query) ? shape.n * kFloatBytes : 0};
  }

  Fc(const ProductEngine& engine, const KernelQuery& query)
      : chosen_(choose_plan<Fc>(engine, query)),
        stored_(query.out[0].dtype),
        relu_(activation_name(query.attrs) == "relu"),
        mask_(query.out.size() > 1),
        epilogue_(find_epilogue(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)) {}

  void run(const KernelArgs& args) const override {
    const Plan& plan = chosen_.plan;
    auto* y = args.out<std::byte>(0);
    const float* bias = args.has_in(2) ? args.in<float>(2) : nullptr;
    const bool low = stored_ != DType::FP32, separate = plan.form == Form::SEPARATE;
    std::byte* extra = args.workspace() + plan.extra;
    std::byte* product = separate && low ? extra : y;
    const void* vector = bias;
    if (!separate && low && bias != nullptr) {
      round_vector(args, bias, extra, stored_, plan.product.n);
      vector = extra;
    }
    chosen_.product->run(args, {.a = args.in<std::byte>(0),
                                .b = args.in<std::byte>(1),
                                .c = product,
                                .vector = const_cast<void*>(vector),
                                .workspace = args.workspace()});
    // Not by the library's epilogue, which makes 0 of NaN.
    const std::int64_t count = plan.product.result_elements();
    if (!separate && mask_) {
      relu_and_mark(args, y, args.out<std::byte>(1), stored_, count);
    } else if (!separate && relu_) {
      drop_where_not_positive(args, y, y, stored_, count);
    }
    if (!separate) return;
    epilogue_->forward(args, {.product = reinterpret_cast<const float*>(product),
                              .bias = bias,
                              .result = y,
                              .dtype = stored_,
                              .rows = plan.product.m,
                              .columns = plan.product.n,
                              .alpha = alpha_});
    if (mask_)
      mark_positive(args, y, args.out<std::byte>(1), stored_, plan.product.m, plan.product.n);
  }

 private:
  ChosenPlan chosen_;
  DType stored_;
  bool relu_, mask_;
  const Epilogue* epilogue_;
  float alpha_;
};

/// dy [M, O] W [O, K]: dx = dy W
class FcDx final : public PreparedKernel {
 public:
  static std::vector<Form> forms(const KernelQuery& query) {
    const std::string activation = activation_name(query.attrs);
    if (activation.empty()) return {Form::PLAIN};
    if (has_mask(query)) return {Form::MASKED, Form::FUSED};
    // Rounding before relu's derivative, which is 0 or 1, is rounding after it.
    if (activation == "relu" && query.out[0].dtype != DType::FP32) {
      return {Form::FUSED, Form::MASKED, Form::SEPARATE};
    }
    return {Form::SEPARATE};
  }
  static Plan plan(const ProductEngine& engine, const KernelQuery& query, Form form) {
    const TensorType& dx = query.out[0];
    ProductShape shape{.m = num_rows(dx),
                       .n = query.in[1].shape[1],
                       .k = query.in[1].shape[0],
                       .dtype = query.in[0].dtype,
                       .result = form == Form::SEPARATE ? DType::FP32 : dx.dtype};
    if (form == Form::MASKED) {
      const std::int64_t bytes = shape.m * mask_row_bits(shape.n) / 8;
      return {engine, shape, form, Fused::MASK, has_mask(query) ? 0 : bytes};
    }
    const bool staged = form == Form::SEPARATE && dx.dtype != DType::FP32;
    return {engine, shape, form, Fused::NONE, staged ? shape.result_elements() * kFloatBytes : 0};
  }

  FcDx(const ProductEngine& engine, const KernelQuery& query)
      : chosen_(choose_plan<FcDx>(engine, query)),
        stored_(query.out[0].dtype),
        mask_(has_mask(query)),
        epilogue_(find_epilogue(activation_name(query.attrs))),
        alpha_(activation_alpha(query.attrs)) {}

  void run(const KernelArgs& args) const override {
    const Plan& plan = chosen_.plan;
    auto* dx = args.out<std::byte>(0);
    const std::byte* gate = args.has_in(2) ? args.in<std::byte>(2) : nullptr;
    const bool separate = plan.form == Form::SEPARATE;
    std::byte* extra = args.workspace() + plan.extra;
    std::byte* product = separate && stored_ != DType::FP32 ? extra : dx;
    if (plan.form == Form::MASKED && !mask_) {
      mark_positive(args, gate, extra, stored_, plan.product.m, plan.product.n);
    }
    chosen_.product->run(args, {.a = args.in<std::byte>(0),
                                .b = args.in<std::byte>(1),
                                .c = product,
                                .vector = mask_ ? const_cast<std::byte*>(gate) : extra,
                                .workspace = args.workspace()});
    if (plan.form == Form::FUSED) {
      const auto drop = mask_ ? drop_where_not_marked : drop_where_not_positive;
      drop(args, gate, dx, stored_, plan.product.result_elements());
    }
    if (!separate) return;
    epilogue_->backward(args, {.product = reinterpret_cast<const float*>(product),
                               .gate = gate,
                               .result = dx,
                               .dtype = stored_,
                               .rows = plan.product.m,
                               .columns = plan.product.n,
                               .alpha = alpha_});
  }

 private:
  ChosenPlan chosen_;
  DType stored_;
  bool mask_;
  const Epilogue* epilogue_;
  float alpha_;
};

/// dy [M, O] x [M, K]: dW = dy^T x
class FcDweight final : public PreparedKernel {
 public:
  static ColumnSums sums_of(const KernelQuery& query) {
    const TensorType& dy = query.in[0];
    return {num_rows(dy), dy.shape.back(), dy.dtype};
  }
  static std::vector<Form> forms(const KernelQuery& query) {
    if (query.out.size() < 2) return {Form::PLAIN};
    return {Form::FUSED, Form::SEPARATE};
  }
  static Plan plan(const ProductEngine& engine, const KernelQuery& query, Form form) {
    const TensorType &dy = query.in[0], &x = query.in[1];
    const ProductShape shape{.m = dy.shape.back(),
                             .n = x.shape.back(),
                             .k = num_rows(dy),
                             .transpose_a = true,
                             .dtype = dy.dtype};
    return {engine, shape, form, form == Form::FUSED ? Fused::COLUMN_SUMS : Fused::NONE,
            form == Form::SEPARATE ? sums_of(query).workspace_bytes() : 0};
  }

  FcDweight(const ProductEngine& engine, const KernelQuery& query)
      : chosen_(choose_plan<FcDweight>(engine, query)), sums_(sums_of(query)) {}

  void run(const KernelArgs& args) const override {
    const Plan& plan = chosen_.plan;
    float* dbias = args.num_out() > 1 ? args.out<float>(1) : nullptr;
    const auto* dy = args.in<std::byte>(0);
    chosen_.product->run(args, {.a = dy,
                                .b = args.in<std::byte>(1),
                                .c = args.out<float>(0),
                                .vector = dbias,
                                .workspace = args.workspace()});
    if (plan.form == Form::SEPARATE) sums_.run(args, dy, dbias, args.workspace() + plan.extra);
  }

 private:
  ChosenPlan chosen_;
  ColumnSums sums_;
};

std::string refuse(const ProductEngine& engine, const KernelQuery& query, const Plan& plan) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
  if (query.in[1].dtype != dtype) {
    return fmt::format("operands are {} and {}, expected one dtype", dtype, query.in[1].dtype);
  }
  const std::string activation = activation_name(query.attrs);
  if (find_epilogue(activation) == nullptr) {
    return fmt::format("there is no epilogue of activation '{}'", activation);
  }
  return engine.refuse(plan.product);
}

/// Large products are worth more measurements: 8 algorithms each, small ones 3.
int most_algorithms(const ProductShape& shape) {
  constexpr double kLarge = 1e10;  // floating-point operations
  return 2.0 * double(shape.m) * double(shape.n) * double(shape.k) >= kLarge ? 8 : 3;
}

template <typename Op>
std::vector<std::string> configs(const ProductEngine& engine, const KernelQuery& query) {
  std::vector<std::string> all;
  for (const Form form : Op::forms(query)) {
    const Plan plan = Op::plan(engine, query, form);
    if (engine.algorithms == nullptr) {
      if (engine.make(plan.product, plan.fused, "")) all.emplace_back(name_of(form));
      continue;
    }
    const int most = most_algorithms(plan.product);
    for (const std::string& algorithm : engine.algorithms(plan.product, plan.fused, most)) {
      all.push_back(fmt::format("{} {}", name_of(form), algorithm));
    }
  }
  return all;
}

template <typename Op>
std::string refuse_config(const ProductEngine& engine, const KernelQuery& query) {
  const auto config = FormConfig::parse(query.config);
  const std::vector<Form> forms = Op::forms(query);
  if (!config || std::find(forms.begin(), forms.end(), config->form) == forms.end()) {
    return fmt::format("'{}' is no config of this node", query.config);
  }
  const Plan plan = Op::plan(engine, query, config->form);
  if (engine.make(plan.product, plan.fused, config->algorithm)) return "";
  return fmt::format("{} does not have the algorithm '{}' here", engine.name, config->algorithm);
}

/// Without a config the form is known on the device only: there is room for each.
template <typename Op>
std::int64_t workspace_bytes(const ProductEngine& engine, const KernelQuery& query) {
  if (const auto config = FormConfig::parse(query.config))
    return Op::plan(engine, query, config->form).workspace_bytes;
  std::int64_t most = 0;
  for (const Form form : Op::forms(query)) {
    most = std::max(most, Op::plan(engine, query, form).workspace_bytes);
  }
  return most;
}

template <typename Op>
KernelDef fc_kernel(const std::string& op, const ProductEngine& engine) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = "cuda." + op + "." + engine.name;
  def.refuse = [&engine](const KernelQuery& query) {
    return refuse(engine, query, Op::plan(engine, query, Op::forms(query).back()));
  };
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return workspace_bytes<Op>(engine, query);
  };
  def.configs = [&engine](const KernelQuery& query) { return configs<Op>(engine, query); };
  def.refuse_config = [&engine](const KernelQuery& query) {
    return refuse_config<Op>(engine, query);
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Op>(engine, query);
  };
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const ProductEngine* engine :
       {&cublaslt_tf32_engine(), &cublaslt_engine(), &simt_engine()}) {
    all.emplace_back(fc_kernel<Fc>("fc", *engine), engine->priority);
    all.emplace_back(fc_kernel<Fc>("fc_marked", *engine), engine->priority);
    all.emplace_back(fc_kernel<FcDx>("fc_dx", *engine), engine->priority);
    all.emplace_back(fc_kernel<FcDweight>("fc_dweight", *engine), engine->priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cuda
