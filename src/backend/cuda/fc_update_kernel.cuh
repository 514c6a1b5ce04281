// SPDX-License-Identifier: Apache-2.0
#pragma once

// fc_update: weight gradients of a chain of fc layers, the finite check and the optimizer as one
// kernel, for any way to make a tile (fc_update.cu, fc_update_wgmma.cu). A block makes a tile of
// some dW = dy^T x in shared memory; when all blocks have told whether theirs is finite, each
// updates its tile's weights. The gradients never leave the chip, but for tiles that a block makes
// before its last one: those lie in the gradients' range meanwhile.
#include "backend/cuda/early_start.cuh"
#include "backend/cuda/fc_update_block.cuh"
#include "backend/cuda/grid_meeting.cuh"

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
constexpr int kChunk = 8;  // elements of 16 bytes

/// What blocks tell each other.
struct Verdicts {
  double* sumsq;  // by block; not finite if one of its gradients is not
  std::int32_t* found_inf;
  float* grad_sumsq;
};

/// What a warp's lanes hold of the segment table and the step's row: asked for before the product,
/// used after it, so that nobody waits for it.
class StepLookUp {
 public:
  __device__ explicit StepLookUp(const opt::StepInputs& step)
      : step_(step), row_number_(step.counters[kCounterRow]) {
    if (lane() < step.num_segments) mine_ = step.segments[lane()];
  }

  /// Rates of the segment that begins at `at`, by a whole warp; false: it is frozen.
  __device__ bool rates_at(std::int64_t at, opt::SegmentRates& rates) const {
    Segment segment = mine_;
    for (int base = 0;; base += kWarp) {
      if (base > 0 && base + lane() < step_.num_segments) {
        segment = step_.segments[base + lane()];
      }
      const bool here = base + lane() < step_.num_segments && segment.begin == at;
      const unsigned found = __ballot_sync(0xffffffffu, here);
      if (found == 0 && base + kWarp < step_.num_segments) continue;
      if (found == 0) return false;  // no segment begins there: nobody owns it
      const int owner = __ffs(int(found)) - 1;
      const int group = __shfl_sync(0xffffffffu, segment.group, owner);
      const float* row = step_.step_floats + row_number_ % step_.capacity * step_.columns +
                         kFloatHeader + kGroupColumns * group;
      rates.lr = row[kGroupLr] * __shfl_sync(0xffffffffu, segment.lr_scale, owner);
      rates.decay = row[kGroupDecay] * __shfl_sync(0xffffffffu, segment.decay_scale, owner);
      return __shfl_sync(0xffffffffu, segment.frozen, owner) == 0;
    }
  }

 private:
  __device__ static int lane() { return int(threadIdx.x) % kWarp; }

  const opt::StepInputs& step_;
  std::int64_t row_number_;
  Segment mine_{};
};

/// Rates of a tile's weights and biases.
struct TileRates {
  opt::SegmentRates of[2];
  bool owned[2];
};

/// Sum of what the blocks told, in their order, in thread 0.
__device__ inline double total_of(const Verdicts& verdicts) {
  double sum = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += UpdateTile::kThreads) {
    sum += __ldcg(verdicts.sumsq + i);
  }
  return block_sum(sum);
}

/// `settled`: no node of the step writes the state that the optimizer reads, so that all of it is
/// asked for before the predecessors have ended. `keep`: gradients are written too. kSingle: there
/// is a block for every tile.
template <typename Update, typename T, typename Gradient, bool kSingle>
__global__ __launch_bounds__(UpdateTile::kThreads, 3) void fc_update_kernel(
    const __grid_constant__ FcLayers<T> layers,
    const __grid_constant__ typename Gradient::template Operands<Update> operands,
    opt::Ranges<T> ranges, float* gradients, opt::StepInputs step, Update update, Verdicts verdicts,
    GridMeeting meeting, bool settled, bool keep) {
  extern __shared__ __align__(16) unsigned char bytes[];
  __shared__ typename Gradient::Barriers barriers;
  __shared__ typename Update::Shared shared;
  __shared__ opt::GradientScale scale;
  __shared__ TileRates rates;
  __shared__ unsigned num_bad;
  const int grid = int(gridDim.x), warp = int(threadIdx.x) / kWarp;
  const int last = kSingle ? int(blockIdx.x)
                           : layers.num_tiles - 1 - (layers.num_tiles - 1 - int(blockIdx.x)) % grid;

  let_successors_start();
  if (!settled) wait_for_predecessors();
  Gradient gradient(operands.products, bytes, barriers);
  typename Gradient::template State<Update> state(operands.state, gradient);
  UpdateBlock<Update, T, Gradient, typename Gradient::template State<Update>> block(
      layers, ranges, gradients, gradient, state);
  const StepLookUp look_up(step);
  if (kSingle && Gradient::kEarlyState) block.prefetch(last);
  if (settled) wait_for_predecessors();

  block.start(int(blockIdx.x));
  // While the operands come, warps 0 and 1 look up the rates, others raise Adam's betas.
  const auto find_rates = [&](int tile) {
    if (warp > 1) return;
    const FcLayer<T>& layer = *TilePlace<T>(layers, tile).layer;
    const std::int64_t at = warp == 0 ? layer.weight_at : layer.bias_at;
    opt::SegmentRates found{};
    const bool owned = look_up.rates_at(at, found);
    if (threadIdx.x % kWarp != 0) return;
    rates.of[warp] = found;
    rates.owned[warp] = owned;
  };
  find_rates(last);
  update.prepare(step, shared);
  double sumsq = 0;
  if constexpr (!kSingle) {
    for (int tile = int(blockIdx.x); tile < last; tile += grid) {
      block.make(tile, sumsq);
      block.spill(tile);
      __syncthreads();  // the next tile's stages lie over this one's gradients
      block.start(tile + grid);
    }
  }
  block.make(last, sumsq);
  if (keep) block.spill(last);
  if (!kSingle || !Gradient::kEarlyState) block.prefetch(last);
  sumsq = block_sum(sumsq);
  const auto factors_now = [&] {
    return TileFactors<Update>{update.factors(shared, rates.of[0]),
                               update.factors(shared, rates.of[1]), !rates.owned[0],
                               !rates.owned[1]};
  };
  TileFactors<Update> factors = factors_now();
  if (threadIdx.x == 0) {
    verdicts.sumsq[blockIdx.x] = sumsq;
    if (step.clip_norm <= 0) scale = opt::gradient_scale(step, nullptr);
    num_bad = meeting.meet(!isfinite(sumsq));
  }
  __syncthreads();
  if (step.clip_norm > 0) {
    const double total = total_of(verdicts);
    if (threadIdx.x == 0) {
      const auto rounded = float(total);
      scale = opt::gradient_scale(step, &rounded);
    }
    __syncthreads();
  }
  if (num_bad == 0) {
    block.update(last, update, scale, factors);
    for (int tile = int(blockIdx.x); !kSingle && tile < last; tile += grid) {
      __syncthreads();  // the former tile's rates are used
      find_rates(tile);
      block.unspill(tile);
      block.prefetch(tile);
      __syncthreads();
      factors = factors_now();
      block.update(tile, update, scale, factors);
    }
  }
  if (blockIdx.x == 0) {
    const double total = total_of(verdicts);
    if (threadIdx.x == 0) {
      *verdicts.found_inf = num_bad != 0 ? 1 : 0;
      *verdicts.grad_sumsq = float(total);
    }
  }
  if (threadIdx.x == 0) meeting.leave();
}

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
    grid_ = int(single_ ? tiles : resident_blocks(fc_update_kernel<Update, T, Gradient, false>));
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
