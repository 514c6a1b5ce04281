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

using UpdateTile = TileShape<64, 64, 64, 4, 2, 1, 4>;

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

/// A tile of a layer. A thread owns vectors of four neighbours: vector v is number v * threads +
/// thread of the tile's rows.
template <typename T>
struct TilePlace {
  static constexpr int kWidth = 4;
  static constexpr int kRowVectors = UpdateTile::kN / kWidth;
  static constexpr int kVectors = UpdateTile::kM * kRowVectors / UpdateTile::kThreads;

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
  __device__ static int row_of(int v) {
    return (v * UpdateTile::kThreads + int(threadIdx.x)) / kRowVectors;
  }
  __device__ static int column_of(int v) {
    return (v * UpdateTile::kThreads + int(threadIdx.x)) % kRowVectors * kWidth;
  }
  /// Calls f(v, element, number of its neighbours in the layer) for each vector of the thread.
  template <typename F>
  __device__ void each_vector(F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int row = m + row_of(v), column = n + column_of(v);
      const int count = row < layer->out ? min(kWidth, layer->in - column) : 0;
      if (count > 0) f(v, layer->weight_at + std::int64_t(row) * layer->in + column, count);
    }
  }
  /// Whole vectors begin at multiples of their size.
  __device__ bool wide() const { return layer->in % kWidth == 0 && layer->weight_at % kWidth == 0; }
};

using Float4 = Vector<float, 4>;

__device__ inline void load(const float* from, bool wide, int count, Float4& to) {
  if (wide) {
    to = *reinterpret_cast<const Float4*>(from);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (i < count) to.v[i] = from[i];
  }
}

template <typename T>
__device__ inline void store(T* to, bool wide, int count, const Vector<T, 4>& from) {
  if (wide) {
    *reinterpret_cast<Vector<T, 4>*>(to) = from;
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (i < count) to[i] = from.v[i];
  }
}

/// A tile's factors, made by one thread before the blocks meet.
template <typename Update>
struct TileFactors {
  typename Update::Factors weight, bias;
  bool weight_frozen, bias_frozen;
};

template <typename Update, typename T>
class UpdateBlock {
 public:
  using Place = TilePlace<T>;

  /// `shared`: the product's stages, where the gradients lie afterwards.
  __device__ UpdateBlock(const FcLayers<T>& layers, const opt::Ranges<T>& ranges, float* gradients,
                         void* shared)
      : layers_(layers),
        ranges_(ranges),
        gradients_(gradients),
        stages_(static_cast<T*>(shared)),
        made_(static_cast<float*>(shared)) {}

  /// Gradients of a tile into shared memory; returns through `bad` and `sumsq` what they are like.
  __device__ void make(int tile, bool& bad, float& sumsq) {
    const Place place(layers_, tile);
    const FcLayer<T>& layer = *place.layer;
    TileProduct<T, UpdateTile, Along::OUTER, Along::OUTER> product;
    product.a = {layer.dy, layer.out};
    product.b = {layer.x, layer.in};
    product.num_m = layer.out;
    product.num_n = layer.in;
    product.num_k = layers_.batch;
    product.aligned_a = layer.aligned_dy;
    product.aligned_b = layer.aligned_x;
    bias_part_ = 0;
    using A = typename decltype(product)::A;
    // A column of dy is summed by kBiasParts threads, each over a part of every stage.
    const bool sums_bias = place.has_bias();
    product.run(stages_, place.m, place.n, [&](const T* stage, int) {
      if (!sums_bias) return;
      constexpr int kDepth = UpdateTile::kDepth / kBiasParts;
      const T* column = A::at(stage, int(threadIdx.x) % UpdateTile::kM,
                              int(threadIdx.x) / UpdateTile::kM * kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) bias_part_ += to_float(column[k * A::kPitch]);
    });
    if (sums_bias) bias_sum_ = sum_of_parts();
    const auto judge = [&](float gradient) {
      bad = bad || !isfinite(gradient);
      sumsq += gradient * gradient;
    };
    place.each_vector([&](int v, std::int64_t, int count) {
      const Float4 gradient = made(v);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < count) judge(gradient.v[i]);
      }
    });
    std::int64_t at;
    if (place.bias_element(at)) judge(bias_sum_);
  }

  /// The tile's gradients into the gradients' range, and back.
  __device__ void spill(int tile) const {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector(
        [&](int v, std::int64_t at, int count) { store(gradients_ + at, wide, count, made(v)); });
    std::int64_t at;
    if (place.bias_element(at)) gradients_[at] = bias_sum_;
  }
  __device__ void unspill(int tile) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector(
        [&](int v, std::int64_t at, int count) { load(gradients_ + at, wide, count, made(v)); });
    std::int64_t at;
    if (place.bias_element(at)) bias_sum_ = gradients_[at];
  }

  /// Weights and moments of the tile, early: they do not depend on the verdict.
  __device__ void prefetch(int tile) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector([&](int v, std::int64_t at, int count) {
      load(ranges_.weights + at, wide, count, weight_[v]);
      if (Update::kMoments > 0) load(ranges_.moment1 + at, wide, count, moment1_[v]);
      if (Update::kMoments > 1) load(ranges_.moment2 + at, wide, count, moment2_[v]);
    });
    std::int64_t at;
    if (!place.bias_element(at)) return;
    bias_weight_ = ranges_.weights[at];
    if (Update::kMoments > 0) bias_moment1_ = ranges_.moment1[at];
    if (Update::kMoments > 1) bias_moment2_ = ranges_.moment2[at];
  }

  __device__ void update(int tile, const Update& update, const opt::GradientScale& scale,
                         const TileFactors<Update>& factors) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    if (!factors.weight_frozen) {
      place.each_vector([&](int v, std::int64_t at, int count) {
        const Float4 gradient = made(v);
        Vector<T, 4> narrow;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          update(factors.weight, scale(gradient.v[i]), weight_[v].v[i], moment1_[v].v[i],
                 moment2_[v].v[i]);
          narrow.v[i] = from_float<T>(weight_[v].v[i]);
        }
        store(ranges_.weights + at, wide, count, weight_[v]);
        if (Update::kMoments > 0) store(ranges_.moment1 + at, wide, count, moment1_[v]);
        if (Update::kMoments > 1) store(ranges_.moment2 + at, wide, count, moment2_[v]);
        if (ranges_.weight_cast != nullptr) store(ranges_.weight_cast + at, wide, count, narrow);
      });
    }
    std::int64_t at;
    if (factors.bias_frozen || !place.bias_element(at)) return;
    update(factors.bias, scale(bias_sum_), bias_weight_, bias_moment1_, bias_moment2_);
    ranges_.weights[at] = bias_weight_;
    if (Update::kMoments > 0) ranges_.moment1[at] = bias_moment1_;
    if (Update::kMoments > 1) ranges_.moment2[at] = bias_moment2_;
    if (ranges_.weight_cast != nullptr) ranges_.weight_cast[at] = from_float<T>(bias_weight_);
  }

 private:
  static constexpr int kBiasParts = UpdateTile::kThreads / UpdateTile::kM;
  static_assert(UpdateTile::kDepth % kBiasParts == 0);

  /// Of the thread's column, in the parts' order; behind the gradients in shared memory.
  __device__ float sum_of_parts() const {
    float* parts = made_ + UpdateTile::kM * UpdateTile::kPitch;
    parts[threadIdx.x] = bias_part_;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int part = 0; part < kBiasParts; ++part) {
      sum += parts[part * UpdateTile::kM + int(threadIdx.x) % UpdateTile::kM];
    }
    return sum;
  }

  /// The thread's vector v of the tile's gradients.
  __device__ Float4& made(int v) const {
    return *reinterpret_cast<Float4*>(made_ + Place::row_of(v) * UpdateTile::kPitch +
                                      Place::column_of(v));
  }

  const FcLayers<T>& layers_;
  const opt::Ranges<T>& ranges_;
  float* gradients_;
  T* stages_;
  float* made_;  // over the stages
  Float4 weight_[Place::kVectors], moment1_[Place::kVectors], moment2_[Place::kVectors];
  float bias_part_ = 0, bias_sum_ = 0, bias_weight_ = 0, bias_moment1_ = 0, bias_moment2_ = 0;
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

template <typename Update, typename T>
__global__ __launch_bounds__(UpdateTile::kThreads,
                             3) void fc_update_kernel(const __grid_constant__ FcLayers<T> layers,
                                                      opt::Ranges<T> ranges, float* gradients,
                                                      opt::StepInputs step, Update update,
                                                      Verdicts verdicts, bool keep) {
  extern __shared__ __align__(16) unsigned char bytes[];
  __shared__ typename Update::Shared shared;
  __shared__ float total_sumsq;
  __shared__ opt::GradientScale shared_scale;
  __shared__ TileRates rates;
  const int grid = int(gridDim.x), warp = int(threadIdx.x) / kWarp;
  const int last = layers.num_tiles - 1 - (layers.num_tiles - 1 - int(blockIdx.x)) % grid;
  const StepLookUp look_up(step);

  UpdateBlock<Update, T> block(layers, ranges, gradients, bytes);
  bool bad = false;
  float sumsq = 0;
  for (int tile = int(blockIdx.x); tile < layers.num_tiles; tile += grid) {
    block.make(tile, bad, sumsq);
    if (tile != last || keep) block.spill(tile);
    if (tile != last) __syncthreads();  // the next tile's stages lie over this one's gradients
  }
  block.prefetch(last);

  // Warps 0 and 1 look up the rates, others raise Adam's betas to their powers.
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

  const int any_bad = __syncthreads_or(bad);
  const double block_sumsq = block_sum(double(sumsq));
  if (threadIdx.x == 0) {
    verdicts.sumsq[blockIdx.x] = block_sumsq;
    verdicts.bad[blockIdx.x] = any_bad;
  }
  const auto factors_now = [&] {
    return TileFactors<Update>{update.factors(shared, rates.of[0]),
                               update.factors(shared, rates.of[1]), !rates.owned[0],
                               !rates.owned[1]};
  };
  TileFactors<Update> factors = factors_now();
  cooperative_groups::this_grid().sync();

  int others_bad = 0;
  for (int i = int(threadIdx.x); i < grid; i += UpdateTile::kThreads) others_bad |= verdicts.bad[i];
  others_bad = __syncthreads_or(others_bad);
  if (step.clip_norm > 0 || blockIdx.x == 0) {
    double sum = 0;
    for (int i = int(threadIdx.x); i < grid; i += UpdateTile::kThreads) sum += verdicts.sumsq[i];
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
  block.update(last, update, scale, factors);
  for (int tile = int(blockIdx.x); tile < last; tile += grid) {
    __syncthreads();  // the former tile's rates are used
    find_rates(tile);
    block.unspill(tile);
    block.prefetch(tile);
    __syncthreads();
    factors = factors_now();
    block.update(tile, update, scale, factors);
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
