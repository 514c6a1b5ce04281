// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conv_graph.h"

#include <array>
#include <span>

#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of every operand

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::FP32: return CUDNN_DATA_FLOAT;
    case DType::FP16: return CUDNN_DATA_HALF;
    case DType::BF16: return CUDNN_DATA_BFLOAT16;
    default: throw_as<InternalError>("cudnn: there are no convolutions of {}", dtype);
  }
}

/// A tensor [n, c, h, w] that lies as [n, h, w, c].
CudnnDescriptor make_tensor(ConvUid uid, cudnnDataType_t type, std::int64_t n, std::int64_t c,
                            std::int64_t h, std::int64_t w) {
  const std::array<std::int64_t, 4> dims = {n, c, h, w}, strides = {h * w * c, 1, w * c, c};
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t(uid));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.finalize();
  return tensor;
}

CudnnDescriptor make_convolution(const ConvGeometry& g) {
  CudnnDescriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(g.padding));
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(g.padding));
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(g.stride));
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(g.dilation));
  conv.finalize();
  return conv;
}

/// Names of one direction's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t conv, x, weight, y, alpha, beta;
};

OperationNames names_of(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::FORWARD:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvDirection::DATA:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvDirection::WEIGHT:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  throw_as<InternalError>("cudnn: unknown direction {}", int(direction));
}

/// The descriptors of a graph; the last `num_operations` are its operations.
struct GraphParts {
  std::vector<CudnnDescriptor> all;
  std::size_t num_operations = 0;
};

GraphParts make_parts(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const cudnnDataType_t type = type_of(problem.dtype);
  GraphParts parts;
  auto& all = parts.all;
  all.push_back(make_tensor(kConvX, type, g.batch, g.channels, g.height, g.width));
  all.push_back(make_tensor(kConvWeight, type, g.out_channels, g.channels / g.groups, g.kernel[0],
                            g.kernel[1]));
  all.push_back(make_tensor(kConvY, type, g.batch, g.out_channels, g.out_height, g.out_width));
  all.push_back(make_convolution(g));
  if (problem.statistics) {
    all.push_back(make_tensor(kConvSum, CUDNN_DATA_FLOAT, 1, g.out_channels, 1, 1));
    all.push_back(make_tensor(kConvSumOfSquares, CUDNN_DATA_FLOAT, 1, g.out_channels, 1, 1));
  }
  const OperationNames names = names_of(problem.direction);
  CudnnDescriptor operation(names.type);
  operation.set(names.x, all[0]);
  operation.set(names.weight, all[1]);
  operation.set(names.y, all[2]);
  operation.set(names.conv, all[3]);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finalize();
  all.push_back(std::move(operation));
  parts.num_operations = 1;
  if (problem.statistics) {
    CudnnDescriptor statistics(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    // The precompiled engine wants that of y; its sums are fp32 nevertheless.
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, type);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, all[2]);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, all[4]);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, all[5]);
    statistics.finalize();
    all.push_back(std::move(statistics));
    parts.num_operations = 2;
  }
  return parts;
}

// Newer releases take the device from elsewhere where this is left out; older ones need it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
#pragma GCC diagnostic pop

CudnnDescriptor make_graph(const GraphParts& parts, cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (std::size_t i = parts.all.size() - parts.num_operations; i < parts.all.size(); ++i) {
    operations.push_back(parts.all[i].get());
  }
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::int64_t(operations.size()), operations.data());
  if (handle != nullptr) graph.set(kGraphHandle, CUDNN_TYPE_HANDLE, 1, &handle);
  graph.finalize();
  return graph;
}

}  // namespace

std::string ConvProblem::text() const {
  const ConvGeometry& g = geometry;
  constexpr const char* kNames[] = {"conv", "conv_dx", "conv_dweight"};
  return fmt::format("{} {}{}{} x{} w{} stride {},{} padding {},{} dilation {},{} groups {}",
                     kNames[int(direction)], dtype, tf32 ? " tf32" : "",
                     statistics ? " statistics" : "", g.x_shape(), g.weight_shape(), g.stride[0],
                     g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1],
                     g.groups);
}

ConvGraph::ConvGraph(const ConvProblem& problem, const ConvTarget& target)
    : problem_(problem), target_(target), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  GraphParts parts = make_parts(problem);
  graph_ = make_graph(parts, target.handle);
  parts_ = std::move(parts.all);
}

}  // namespace tr::cuda
