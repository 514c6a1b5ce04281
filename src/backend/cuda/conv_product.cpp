// SPDX-License-Identifier: Apache-2.0
// Convolutions of 1x1 windows at stride 1 are products of matrices [pixels, channels]: y = x W^T,
// dx = dy W, dW = dy^T x. By cuBLASLt, whose dW comes out in fp32 at once; behind cuDNN in rank, so
// they run where they were measured to be faster, or where cuDNN is not there.
#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "core/check.h"
#include "core/format.h"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

constexpr int kPriority = 9;
constexpr int kMostAlgorithms = 4;  // cuDNN's engines want their share of the time

/// Which of a node's tensors are the product's operands, and how.
struct Forward {
  static constexpr int kPicture = 0;  // input with the feature map's type
  static ProductShape shape(const ConvGeometry& g, DType dtype) {
    return {.m = g.batch * g.height * g.width,
            .n = g.out_channels,
            .k = g.channels,
            .transpose_b = true,
            .dtype = dtype,
            .result = dtype};
  }
};
struct Data {
  static constexpr int kPicture = -1;  // the output has it
  static ProductShape shape(const ConvGeometry& g, DType dtype) {
    return {.m = g.batch * g.height * g.width,
            .n = g.channels,
            .k = g.out_channels,
            .dtype = dtype,
            .result = dtype};
  }
};
struct Weight {
  static constexpr int kPicture = 1;
  static ProductShape shape(const ConvGeometry& g, DType dtype) {
    return {.m = g.out_channels,
            .n = g.channels,
            .k = g.batch * g.height * g.width,
            .transpose_a = true,
            .dtype = dtype};
  }
};

template <typename Op>
ConvGeometry geometry_of(const KernelQuery& query) {
  const TensorType& x = Op::kPicture < 0 ? query.out[0] : query.in[std::size_t(Op::kPicture)];
  return conv_geometry(query.attrs, x);
}

template <typename Op>
ProductShape shape_of(const KernelQuery& query) {
  return Op::shape(geometry_of<Op>(query), query.in[0].dtype);
}

template <typename Op>
std::string refuse(const KernelQuery& query) {
  const ConvGeometry g = geometry_of<Op>(query);
  const bool product = g.kernel[0] == 1 && g.kernel[1] == 1 && g.stride[0] == 1 &&
                       g.stride[1] == 1 && g.padding[0] == 0 && g.padding[1] == 0 && g.groups == 1;
  if (!product) return "it is for 1x1 windows at stride 1 without padding or groups";
  if (query.attrs.flag("bias")) return "it adds no bias";
  const std::int64_t vector = 16 / std::int64_t(size_of(query.in[0].dtype));
  if (g.channels % vector != 0 || g.out_channels % vector != 0) {
    return fmt::format("expected multiples of {} channels", vector);
  }
  return cublaslt_engine().refuse(shape_of<Op>(query));
}

/// Operands are inputs 0 and 1, the result is output 0, whatever the op.
class PointwiseProduct final : public PreparedKernel {
 public:
  explicit PointwiseProduct(std::unique_ptr<Product> product) : product_(std::move(product)) {}
  void run(const KernelArgs& args) const override {
    product_->run(args, {.a = args.in<std::byte>(0),
                         .b = args.in<std::byte>(1),
                         .c = args.out<std::byte>(0),
                         .workspace = args.workspace()});
  }

 private:
  std::unique_ptr<Product> product_;
};

template <typename Op>
KernelDef product_kernel(const std::string& op) {
  const ProductEngine& engine = cublaslt_engine();
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = "cuda." + op + ".cublaslt";
  def.refuse = refuse<Op>;
  def.workspace_bytes = [&engine](const KernelQuery& query) {
    return engine.workspace_bytes(shape_of<Op>(query));
  };
  def.configs = [&engine](const KernelQuery& query) {
    return engine.algorithms(shape_of<Op>(query), Fused::NONE, kMostAlgorithms);
  };
  def.refuse_config = [&engine](const KernelQuery& query) -> std::string {
    if (engine.make(shape_of<Op>(query), Fused::NONE, query.config)) return "";
    return fmt::format("cuBLASLt does not have the algorithm '{}' here", query.config);
  };
  def.prepare = [&engine](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    auto product = engine.make(shape_of<Op>(query), Fused::NONE, query.config);
    if (product == nullptr) {
      throw_as<DeviceError>("cuBLASLt has no algorithm '{}' for a 1x1 convolution", query.config);
    }
    return std::make_unique<PointwiseProduct>(std::move(product));
  };
  return def;
}

const KernelRegistration kForward{product_kernel<Forward>("conv"), kPriority};
const KernelRegistration kData{product_kernel<Data>("conv_dx"), kPriority};
const KernelRegistration kWeight{product_kernel<Weight>("conv_dweight"), kPriority};

}  // namespace
}  // namespace tr::cuda
