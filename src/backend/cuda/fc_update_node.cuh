// SPDX-License-Identifier: Apache-2.0
#pragma once

// The host's side of fc_update, for any way to make a tile: what it refuses, how many blocks run,
// the launch.

#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_update_kernel.cuh"
#include "backend/cuda/launch.h"

namespace tr::cuda::fc_update {

constexpr std::int64_t kMaxTiles = 1600;  // beyond it products of their own are faster
constexpr std::int64_t kMaxBatch = 1024;

// Inputs; operands dy0, x0, dy1, x1 ... follow. Outputs: found_inf, grad_sumsq, then each layer's
// dweight and, where it has one, dbias.
enum Input : int {
  kWeights,
  kGradients,
  kSegments,
  kStepFloats,
  kCounters,
  kLossScale,
  kMoment1,
  kMoment2,
  kWeightCast,
  kFirstOperand
};
constexpr int kFirstGradient = 2;

inline int num_layers(const KernelQuery& query) { return int(query.in.size() - kFirstOperand) / 2; }

inline std::int64_t num_tiles(const KernelQuery& query) {
  std::int64_t tiles = 0;
  for (std::size_t i = kFirstOperand; i + 1 < query.in.size(); i += 2) {
    tiles += ceil_div<std::int64_t>(query.in[i].shape.back(), UpdateTile::kM) *
             ceil_div<std::int64_t>(query.in[i + 1].shape.back(), UpdateTile::kN);
  }
  return tiles;
}

inline std::int64_t batch_of(const TensorType& dy) {
  return dy.shape.num_elements() / dy.shape.back();
}

template <typename T>
FcLayers<T> layers_of(const KernelArgs& args) {
  FcLayers<T> layers;
  const auto* base = args.in<float>(kGradients);
  const std::vector<std::int64_t>& biases = args.attrs().ints("biases");
  int output = kFirstGradient;
  for (int i = 0; i < int(biases.size()); ++i) {
    const int operand = kFirstOperand + 2 * i;
    FcLayer<T>& layer = layers.v[i];
    layer.dy = args.in<T>(operand);
    layer.x = args.in<T>(operand + 1);
    layer.out = int(args.in_type(operand).shape.back());
    layer.in = int(args.in_type(operand + 1).shape.back());
    layer.weight_at = args.out<float>(output++) - base;
    layer.bias_at = biases[std::size_t(i)] != 0 ? args.out<float>(output++) - base : -1;
    layer.first_tile = layers.num_tiles;
    layer.tiles_across = ceil_div(layer.in, UpdateTile::kN);
    layer.aligned_dy = layer.out % kChunk == 0 && aligned_to(16, layer.dy);
    layer.aligned_x = layer.in % kChunk == 0 && aligned_to(16, layer.x);
    layers.num_tiles += ceil_div(layer.out, UpdateTile::kM) * layer.tiles_across;
  }
  layers.count = int(biases.size());
  layers.batch = int(batch_of(args.in_type(kFirstOperand)));
  return layers;
}

template <typename T, typename Update, typename Gradient>
class FcUpdate final : public PreparedKernel {
 public:
  FcUpdate(const KernelQuery& query, Update update) : update_(update) {
    // The number of blocks decides only who makes which tile, and sums are by block: equal GPUs
    // give equal bytes.
    const std::int64_t tiles = num_tiles(query);
    single_ = tiles <= resident_blocks(fc_update_kernel<Update, T, Gradient, true>);
    grid_ = int(
        single_ ? tiles
                : std::min(tiles, resident_blocks(fc_update_kernel<Update, T, Gradient, false>)));
  }

  void run(const KernelArgs& args) const override {
    LaunchShape shape;
    shape.grid.x = unsigned(grid_);
    shape.block.x = UpdateTile::kThreads;
    shape.shared_bytes = Gradient::template kSharedBytes<Update>;
    shape.cooperative = true;
    const auto moment = [&](int input) {
      return args.has_in(input) ? args.state<float>(input) : nullptr;
    };
    const opt::Ranges<T> ranges{args.state<float>(kWeights),
                                nullptr,
                                moment(kMoment1),
                                moment(kMoment2),
                                args.has_in(kWeightCast) ? args.state<T>(kWeightCast) : nullptr,
                                args.in_type(kWeights).shape.num_elements()};
    Verdicts verdicts{};
    verdicts.sumsq = reinterpret_cast<double*>(args.workspace());
    verdicts.found_inf = args.out<std::int32_t>(0);
    verdicts.grad_sumsq = args.out<float>(1);
    const FcLayers<T> layers = layers_of<T>(args);
    bool settled = true;
    for (const int input : {kWeights, kSegments, kStepFloats, kCounters, kLossScale}) {
      settled = settled && args.settled_in(input);
    }
    for (const int input : {kMoment1, kMoment2}) {
      settled = settled && (!args.has_in(input) || args.settled_in(input));
    }
    const auto kernel = single_ ? fc_update_kernel<Update, T, Gradient, true>
                                : fc_update_kernel<Update, T, Gradient, false>;
    launch(args, shape, kernel, layers, Gradient::template operands<Update>(layers, ranges), ranges,
           const_cast<float*>(args.in<float>(kGradients)), step_inputs(args), update_, verdicts,
           GridMeeting(ticket_.number()), settled, args.attrs().flag("keep"));
  }

 private:
  /// Blocks that the device holds at once.
  template <typename... Params>
  static std::int64_t resident_blocks(void (*kernel)(Params...)) {
    TR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 Gradient::template kSharedBytes<Update>));
    int device = 0, multiprocessors = 0, blocks = 0;
    TR_CUDA(cudaGetDevice(&device));
    TR_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    TR_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, UpdateTile::kThreads,
                                                          Gradient::template kSharedBytes<Update>));
    TR_ASSERT(blocks > 0);
    return std::int64_t(multiprocessors) * blocks;
  }
  static opt::StepInputs step_inputs(const KernelArgs& args) {
    const Shape& table = args.in_type(kStepFloats).shape;
    const auto num_segments = int(args.in_type(kSegments).shape[0] / std::int64_t(sizeof(Segment)));
    return {args.in<Segment>(kSegments),
            num_segments,
            args.in<float>(kStepFloats),
            table[0],
            table[1],
            args.in<std::int64_t>(kCounters),
            args.in<float>(kLossScale),
            nullptr,
            nullptr,
            args.attrs().f32("clip_norm"),
            args.attrs().f32("clip_value")};
  }

  Update update_;
  int grid_ = 0;
  bool single_ = false;
  Ticket ticket_;
};

template <typename T, typename Gradient>
std::unique_ptr<PreparedKernel> prepare_typed(const KernelQuery& query) {
  if (query.attrs.str("optimizer") == "adam") {
    return std::make_unique<FcUpdate<T, opt::Adam, Gradient>>(query, opt::adam_of(query.attrs));
  }
  if (query.in[kMoment1].shape.rank() > 0) {
    return std::make_unique<FcUpdate<T, opt::Sgd<1>, Gradient>>(query, opt::sgd_of<1>(query.attrs));
  }
  return std::make_unique<FcUpdate<T, opt::Sgd<0>, Gradient>>(query, opt::sgd_of<0>(query.attrs));
}

template <template <typename> typename Gradient>
std::unique_ptr<PreparedKernel> prepare(const KernelQuery& query, int) {
  if (query.in[kFirstOperand].dtype == DType::FP16) {
    return prepare_typed<__half, Gradient<__half>>(query);
  }
  return prepare_typed<__nv_bfloat16, Gradient<__nv_bfloat16>>(query);
}

inline std::string refuse_shape(const KernelQuery& query) {
  if (num_layers(query) > kMaxLayers) return "there are more than 24 layers";
  const DType dtype = query.in[kFirstOperand].dtype;
  if (dtype != DType::FP16 && dtype != DType::BF16) {
    return "operands are " + std::string(name_of(dtype)) + ", expected fp16 or bf16";
  }
  const std::int64_t batch = batch_of(query.in[kFirstOperand]);
  for (std::size_t i = kFirstOperand; i < query.in.size(); ++i) {
    if (query.in[i].dtype != dtype) return "operands are of several dtypes, expected one";
    if (batch_of(query.in[i]) != batch) return "the layers have different numbers of rows";
  }
  const TensorType& cast = query.in[kWeightCast];
  if (cast.shape.rank() > 0 && cast.dtype != dtype) return "the 16-bit copy is of another dtype";
  if (batch == 0) return "there are no rows";
  if (batch > kMaxBatch) return "there are more than 1024 rows";
  if (num_tiles(query) > kMaxTiles) return "there are more than 1600 tiles of 64 x 64 gradients";
  return "";
}

template <template <typename> typename Gradient>
KernelDef kernel(const char* name, std::string (*refuse)(const KernelQuery&)) {
  KernelDef def;
  def.op = "fc_update";
  def.device = DeviceKind::CUDA;
  def.name = name;
  def.early_start = true;
  def.refuse = refuse;
  def.prepare = prepare<Gradient>;
  def.workspace_bytes = [](const KernelQuery& query) {
    return num_tiles(query) * std::int64_t(sizeof(double));
  };
  return def;
}

}  // namespace tr::cuda::fc_update
