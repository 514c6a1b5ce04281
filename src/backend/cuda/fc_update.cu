// SPDX-License-Identifier: Apache-2.0
// fc_update: weight gradients of a chain of fc layers, the finite check and the optimizer as one
// kernel. A block makes a tile of some dW = dy^T x in its registers; when all blocks have told
// whether theirs is finite, each updates its tile's weights. The gradients never leave the chip,
// but for tiles that a block makes before its last one: those lie in the gradients' range
// meanwhile.
#include <cooperative_groups.h>

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/mma_tile.cuh"
#include "backend/cuda/optimizer_formulas.cuh"

namespace tr::cuda {
namespace {

namespace opt = optimizer;

using UpdateTile = TileShape<64, 64, 64, 4, 2, 3>;

constexpr int kMaxLayers = 24;
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

/// One layer: dW [out, in] = dy [batch, out]^T x [batch, in], element (o, i) at weight_at + o in +
/// i of the ranges, db [out] at bias_at.
template <typename T>
struct FcLayer {
  const T* dy;
  const T* x;
  std::int64_t weight_at;
  std::int64_t bias_at;  // -1: no bias
  int out, in;
  int first_tile, tiles_across;
  bool aligned_dy, aligned_x;
};

template <typename T>
struct FcLayers {
  FcLayer<T> v[kMaxLayers];
  int count = 0;
  int batch = 0;
  int num_tiles = 0;
};

/// What blocks tell each other.
struct Verdicts {
  double* sumsq;  // by block
  int* bad;       // by block
  std::int32_t* found_inf;
  float* grad_sumsq;
};

using Sums = TileSums<UpdateTile>;

/// A tile of a layer, and what a thread knows of its elements.
template <typename T>
struct TilePlace {
  const FcLayer<T>* layer;
  int m, n;

  __device__ TilePlace(const FcLayers<T>& layers, int tile) : layer(&layers.v[0]) {
    for (int i = 1; i < layers.count && layers.v[i].first_tile <= tile; ++i) layer = &layers.v[i];
    const int local = tile - layer->first_tile;
    m = local / layer->tiles_across * UpdateTile::kM;
    n = local % layer->tiles_across * UpdateTile::kN;
  }
  __device__ bool has_bias() const { return n == 0 && layer->bias_at >= 0; }
  /// The bias element that this thread owns; false: none.
  __device__ bool bias_element(std::int64_t& at) const {
    const int o = m + int(threadIdx.x);
    at = layer->bias_at + o;
    return has_bias() && threadIdx.x < UpdateTile::kM && o < layer->out;
  }
  /// Calls f(i, j, e, element, pair) for each two neighbours; pair: the second one exists too.
  template <typename F>
  __device__ void each_pair(F&& f) const {
#pragma unroll
    for (int i = 0; i < UpdateTile::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < UpdateTile::kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const int row = m + Sums::row(i, e), column = n + Sums::column(j, e);
          if (row >= layer->out || column >= layer->in) continue;
          f(i, j, e, layer->weight_at + std::int64_t(row) * layer->in + column,
            column + 1 < layer->in);
        }
      }
    }
  }
};

__device__ inline void load_pair(const float* from, bool pair, float& first, float& second) {
  // Two loads of one sector: the element may lie at an odd place.
  first = from[0];
  if (pair) second = from[1];
}

template <typename Update, typename T>
class UpdateBlock {
 public:
  __device__ UpdateBlock(const FcLayers<T>& layers, const opt::Ranges<T>& ranges, float* gradients)
      : layers_(layers), ranges_(ranges), gradients_(gradients) {}

  /// Gradients of a tile into registers; returns through `bad` and `sumsq` what they are like.
  __device__ void make(int tile, T* shared, bool& bad, float& sumsq) {
    const TilePlace<T> place(layers_, tile);
    const FcLayer<T>& layer = *place.layer;
    TileProduct<T, UpdateTile, Along::OUTER, Along::OUTER> product;
    product.a = {layer.dy, layer.out};
    product.b = {layer.x, layer.in};
    product.num_m = layer.out;
    product.num_n = layer.in;
    product.num_k = layers_.batch;
    product.aligned_a = layer.aligned_dy;
    product.aligned_b = layer.aligned_x;
    bias_sum_ = 0;
    using A = typename decltype(product)::A;
    product.run(shared, place.m, place.n, sums_, [&](const T* stage, int depth) {
      if (!place.has_bias() || threadIdx.x >= UpdateTile::kM) return;
      for (int k = 0; k < depth; ++k) bias_sum_ += to_float(*A::at(stage, int(threadIdx.x), k));
    });
    const auto judge = [&](float gradient) {
      bad = bad || !isfinite(gradient);
      sumsq += gradient * gradient;
    };
    place.each_pair([&](int i, int j, int e, std::int64_t, bool pair) {
      judge(sums_.v[i][j][e]);
      if (pair) judge(sums_.v[i][j][e + 1]);
    });
    std::int64_t at;
    if (place.bias_element(at)) judge(bias_sum_);
  }

  /// The tile's gradients into the gradients' range, and back.
  __device__ void spill(int tile) const {
    const TilePlace<T> place(layers_, tile);
    place.each_pair([&](int i, int j, int e, std::int64_t at, bool pair) {
      gradients_[at] = sums_.v[i][j][e];
      if (pair) gradients_[at + 1] = sums_.v[i][j][e + 1];
    });
    std::int64_t at;
    if (place.bias_element(at)) gradients_[at] = bias_sum_;
  }
  __device__ void unspill(int tile) {
    const TilePlace<T> place(layers_, tile);
    place.each_pair([&](int i, int j, int e, std::int64_t at, bool pair) {
      load_pair(gradients_ + at, pair, sums_.v[i][j][e], sums_.v[i][j][e + 1]);
    });
    std::int64_t at;
    if (place.bias_element(at)) bias_sum_ = gradients_[at];
  }

  /// Weights and moments of the tile, early: they do not depend on the verdict.
  __device__ void prefetch(int tile) {
    TilePlace<T>(layers_, tile).each_pair([&](int i, int j, int e, std::int64_t at, bool pair) {
      load_pair(ranges_.weights + at, pair, weight_[i][j][e], weight_[i][j][e + 1]);
      if (Update::kMoments > 0) {
        load_pair(ranges_.moment1 + at, pair, moment1_[i][j][e], moment1_[i][j][e + 1]);
      }
      if (Update::kMoments > 1) {
        load_pair(ranges_.moment2 + at, pair, moment2_[i][j][e], moment2_[i][j][e + 1]);
      }
    });
  }

  template <typename FactorsAt>
  __device__ void update(int tile, const Update& update, const opt::GradientScale& scale,
                         FactorsAt factors_at) {
    const TilePlace<T> place(layers_, tile);
    const auto run = factors_at(place.layer->weight_at);
    if (!run.frozen) {
      place.each_pair([&](int i, int j, int e, std::int64_t at, bool pair) {
        put(update, run.factors, scale(sums_.v[i][j][e]), at, weight_[i][j][e], moment1_[i][j][e],
            moment2_[i][j][e]);
        if (!pair) return;
        put(update, run.factors, scale(sums_.v[i][j][e + 1]), at + 1, weight_[i][j][e + 1],
            moment1_[i][j][e + 1], moment2_[i][j][e + 1]);
      });
    }
    std::int64_t at;
    if (!place.bias_element(at)) return;
    const auto bias_run = factors_at(place.layer->bias_at);
    if (bias_run.frozen) return;
    float m1 = Update::kMoments > 0 ? ranges_.moment1[at] : 0.0f;
    float m2 = Update::kMoments > 1 ? ranges_.moment2[at] : 0.0f;
    put(update, bias_run.factors, scale(bias_sum_), at, ranges_.weights[at], m1, m2);
  }

 private:
  __device__ void put(const Update& update, const typename Update::Factors& factors, float gradient,
                      std::int64_t at, float w, float m1, float m2) const {
    update(factors, gradient, w, m1, m2);
    ranges_.weights[at] = w;
    if (Update::kMoments > 0) ranges_.moment1[at] = m1;
    if (Update::kMoments > 1) ranges_.moment2[at] = m2;
    if (ranges_.weight_cast != nullptr) ranges_.weight_cast[at] = from_float<T>(w);
  }

  const FcLayers<T>& layers_;
  const opt::Ranges<T>& ranges_;
  float* gradients_;
  Sums sums_;
  float bias_sum_ = 0;
  float weight_[UpdateTile::kRows][UpdateTile::kColumns][4];
  float moment1_[UpdateTile::kRows][UpdateTile::kColumns][4];
  float moment2_[UpdateTile::kRows][UpdateTile::kColumns][4];
};

template <typename Update, typename T>
__global__ __launch_bounds__(UpdateTile::kThreads) void fc_update_kernel(
    const __grid_constant__ FcLayers<T> layers, opt::Ranges<T> ranges, float* gradients,
    opt::StepInputs step, Update update, Verdicts verdicts, bool keep) {
  extern __shared__ __align__(16) unsigned char bytes[];
  __shared__ typename Update::Shared shared;
  __shared__ float total_sumsq;
  __shared__ opt::GradientScale shared_scale;
  update.prepare(step, shared);

  UpdateBlock<Update, T> block(layers, ranges, gradients);
  const int last = layers.num_tiles - 1 - (layers.num_tiles - 1 - int(blockIdx.x)) % int(gridDim.x);
  bool bad = false;
  float sumsq = 0;
  for (int tile = int(blockIdx.x); tile < layers.num_tiles; tile += int(gridDim.x)) {
    block.make(tile, reinterpret_cast<T*>(bytes), bad, sumsq);
    if (tile != last || keep) block.spill(tile);
  }
  block.prefetch(last);

  const int any_bad = __syncthreads_or(bad);
  const double block_sumsq = block_sum(double(sumsq));
  if (threadIdx.x == 0) {
    verdicts.sumsq[blockIdx.x] = block_sumsq;
    verdicts.bad[blockIdx.x] = any_bad;
  }
  cooperative_groups::this_grid().sync();

  int others_bad = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) others_bad |= verdicts.bad[i];
  others_bad = __syncthreads_or(others_bad);
  if (step.clip_norm > 0 || blockIdx.x == 0) {
    double sum = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) sum += verdicts.sumsq[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) total_sumsq = float(sum);
  }
  if (threadIdx.x == 0) {
    shared_scale = opt::gradient_scale(step, &total_sumsq);
    if (blockIdx.x == 0) {
      *verdicts.found_inf = others_bad != 0 ? 1 : 0;
      *verdicts.grad_sumsq = total_sumsq;
    }
  }
  __syncthreads();
  if (others_bad != 0) return;

  const opt::GradientScale scale = shared_scale;
  const float* row = step.step_floats + step.counters[kCounterRow] % step.capacity * step.columns;
  const auto factors_at = [&](std::int64_t at) {
    return opt::run_at(step, row, shared, update, at);
  };
  block.update(last, update, scale, factors_at);
  for (int tile = int(blockIdx.x); tile < last; tile += int(gridDim.x)) {
    block.unspill(tile);
    block.prefetch(tile);
    block.update(tile, update, scale, factors_at);
  }
}

int num_layers(const KernelQuery& query) { return int(query.in.size() - kFirstOperand) / 2; }

std::int64_t num_tiles(const KernelQuery& query) {
  std::int64_t tiles = 0;
  for (std::size_t i = kFirstOperand; i + 1 < query.in.size(); i += 2) {
    tiles += ceil_div<std::int64_t>(query.in[i].shape.back(), UpdateTile::kM) *
             ceil_div<std::int64_t>(query.in[i + 1].shape.back(), UpdateTile::kN);
  }
  return tiles;
}

std::int64_t batch_of(const TensorType& dy) { return dy.shape.num_elements() / dy.shape.back(); }

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
    layer.aligned_dy = layer.out % mma::kChunk == 0 && aligned_to(16, layer.dy);
    layer.aligned_x = layer.in % mma::kChunk == 0 && aligned_to(16, layer.x);
    layers.num_tiles += ceil_div(layer.out, UpdateTile::kM) * layer.tiles_across;
  }
  layers.count = int(biases.size());
  layers.batch = int(batch_of(args.in_type(kFirstOperand)));
  return layers;
}

template <typename T, typename Update>
class FcUpdate final : public PreparedKernel {
 public:
  using Product = TileProduct<T, UpdateTile, Along::OUTER, Along::OUTER>;

  FcUpdate(const KernelQuery& query, Update update) : update_(update) {
    const auto kernel = fc_update_kernel<Update, T>;
    TR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 Product::kSharedBytes));
    int device = 0, multiprocessors = 0, blocks = 0;
    TR_CUDA(cudaGetDevice(&device));
    TR_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    TR_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, UpdateTile::kThreads,
                                                          Product::kSharedBytes));
    TR_ASSERT(blocks > 0);
    // The number of blocks decides only who makes which tile, and sums are by block: equal GPUs
    // give equal bytes.
    grid_ = int(std::min<std::int64_t>(num_tiles(query), std::int64_t(multiprocessors) * blocks));
  }

  void run(const KernelArgs& args) const override {
    LaunchShape shape;
    shape.grid.x = unsigned(grid_);
    shape.block.x = UpdateTile::kThreads;
    shape.shared_bytes = Product::kSharedBytes;
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
    verdicts.bad = reinterpret_cast<int*>(verdicts.sumsq + grid_);
    verdicts.found_inf = args.out<std::int32_t>(0);
    verdicts.grad_sumsq = args.out<float>(1);
    launch(args, shape, fc_update_kernel<Update, T>, layers_of<T>(args), ranges,
           const_cast<float*>(args.in<float>(kGradients)), step_inputs(args), update_, verdicts,
           args.attrs().flag("keep"));
  }

 private:
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
};

template <typename T>
std::unique_ptr<PreparedKernel> prepare_typed(const KernelQuery& query) {
  if (query.attrs.str("optimizer") == "adam") {
    return std::make_unique<FcUpdate<T, opt::Adam>>(query, opt::adam_of(query.attrs));
  }
  if (query.in[kMoment1].shape.rank() > 0) {
    return std::make_unique<FcUpdate<T, opt::Sgd<1>>>(query, opt::sgd_of<1>(query.attrs));
  }
  return std::make_unique<FcUpdate<T, opt::Sgd<0>>>(query, opt::sgd_of<0>(query.attrs));
}

std::unique_ptr<PreparedKernel> prepare(const KernelQuery& query, int) {
  if (query.in[kFirstOperand].dtype == DType::FP16) return prepare_typed<__half>(query);
  return prepare_typed<__nv_bfloat16>(query);
}

std::string refuse(const KernelQuery& query) {
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
  if (!device_has_tensor_cores()) return "the GPU is older than compute capability 8.0";
  return "";
}

const KernelRegistration kFcUpdate{[] {
  KernelDef def;
  def.op = "fc_update";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.fc_update";
  def.refuse = refuse;
  def.prepare = prepare;
  def.workspace_bytes = [](const KernelQuery& query) {
    return num_tiles(query) * std::int64_t(sizeof(double) + sizeof(int));
  };
  return def;
}()};

}  // namespace
}  // namespace tr::cuda
