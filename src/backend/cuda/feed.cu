// SPDX-License-Identifier: Apache-2.0
// Micro-batches out of a split that stays on the device. Compiled with --fmad=false: from a draw to
// a pixel the arithmetic is the host's, operation by operation.
#include "backend/cuda/feed.h"

#include <algorithm>
#include <cstddef>

#include "backend/cuda/check.h"
#include "core/assert.h"
#include "core/pixel/stages.h"

namespace tr::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kMaxWarps = 16;
constexpr int kMinWarps =
    4;  // the first finds the sample, the others load what does not depend on it
constexpr int kRowsPerWarp = 2;  // pieces of a row, of kWarp values
constexpr int kImageAlignment = 16;

/// What a block shares beside the table and two images.
struct SampleState {
  pixel::Program program;
  pixel::Drawn drawn[pixel::Program::kMaxSteps];
  pixel::EraseRect erased;
  std::int64_t sample, epoch;  // sample -1: there is none at this place
};

static_assert(sizeof(pixel::Program) % sizeof(std::uint32_t) == 0);

/// Places in a block's shared memory. `direct`: a program of one stage reads its image where the
/// split keeps it, so that images of any size can be fed.
struct SharedLayout {
  std::int32_t table = 0, image = 0, image_bytes = 0, num_bytes = 0;
  bool direct = false;
};

/// Largest images that go through shared memory where one stage could read them directly: pixels
/// that a rotation or a scaling gathers come faster from there.
constexpr std::int32_t kLargestStaged = 16 * 1024;

__host__ __device__ constexpr std::int32_t rounded_up(std::int32_t bytes) {
  return (bytes + kImageAlignment - 1) / kImageAlignment * kImageAlignment;
}

SharedLayout layout_of(const pixel::Program* program) {
  SharedLayout layout;
  layout.table = layout.image = layout.num_bytes = rounded_up(std::int32_t(sizeof(SampleState)));
  if (program == nullptr) return layout;
  layout.image += rounded_up(256 * program->channels * std::int32_t(size_of(program->dtype)));
  layout.direct = program->largest_bytes > kLargestStaged &&
                  pixel::stage_at(*program, 0).end == program->num_steps;
  if (layout.direct) {
    layout.num_bytes = layout.image;
    return layout;
  }
  layout.image_bytes = rounded_up(program->largest_bytes);
  layout.num_bytes = layout.image + 2 * layout.image_bytes;
  return layout;
}

template <typename Word>
__device__ void copy_words(void* to, const void* from, std::int64_t count, int thread,
                           int num_threads) {
  for (std::int64_t i = thread; i < count; i += num_threads) {
    static_cast<Word*>(to)[i] = static_cast<const Word*>(from)[i];
  }
}

/// By the whole block; a few bytes by a warp in its middle, which neither loads the image nor
/// draws.
__device__ void copy_sample(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(to) |
                             reinterpret_cast<std::uintptr_t>(from) | std::uint64_t(bytes);
  const int num_threads = int(blockDim.x);
  const int thread = (int(threadIdx.x) + num_threads / 2) % num_threads;
  if (bits % 16 == 0) {
    copy_words<uint4>(to, from, bytes / 16, thread, num_threads);
  } else if (bits % 4 == 0) {
    copy_words<std::uint32_t>(to, from, bytes / 4, thread, num_threads);
  } else {
    copy_words<std::uint8_t>(to, from, bytes, thread, num_threads);
  }
}

/// Which row of the ring a launch reads.
struct FeedPlace {
  const FeedRow* rows;
  const std::int64_t* base;
  std::int32_t k, ring_size;
};

/// Sample of the block's place in the batch.
__device__ void find_sample(const FeedSource& source, const FeedPlace& place, SampleState& state) {
  const std::uint64_t index = std::uint64_t(*place.base + place.k) % std::uint64_t(place.ring_size);
  const FeedRow row = place.rows[index];
  const std::int64_t at = row.position + std::int64_t(blockIdx.x);
  std::int64_t sample = -1;
  if (at >= 0 && at < source.num_samples) {
    sample = row.shuffle != 0 ? std::int64_t(row.order(std::uint64_t(at))) : at;
  }
  state.sample = sample;
  state.epoch = row.epoch;
}

/// The steps draw at the same time, each in a warp of its own, the last warps first: the first ones
/// have the image to load.
__device__ void draw_all(const FeedSource& source, SampleState& state) {
  const int warp = int(threadIdx.x) / kWarp, num_warps = int(blockDim.x) / kWarp;
  if (int(threadIdx.x) % kWarp != 0) return;
  const DrawAddress address =
      pixel::augment_address(source.seed, source.split, state.epoch, state.sample);
  const int num_steps = state.program.num_steps;
  for (int i = num_warps - 1 - warp; i <= num_steps; i += num_warps) {
    if (i < num_steps) {
      state.drawn[i] = pixel::draw_step(state.program.steps[i], address);
    } else {
      state.erased = pixel::draw_erase(state.program, address);
    }
  }
}

/// Calls f(y, x, c, place in memory) for the values of an image, a warp taking whole rows.
template <typename F>
__device__ void for_each_value(const pixel::Extent& extent, std::int32_t channels, const F& f) {
  const std::int32_t lane = std::int32_t(threadIdx.x) % kWarp;
  const std::int32_t num_warps = std::int32_t(blockDim.x) / kWarp;
  const std::int32_t row_values = extent.width * channels;
  for (std::int32_t y = std::int32_t(threadIdx.x) / kWarp; y < extent.height; y += num_warps) {
    for (std::int32_t i = lane; i < row_values; i += kWarp) {
      const std::int32_t x = channels == 1 ? i : i / channels;
      f(y, x, i - x * channels, y * row_values + i);
    }
  }
}

/// All stages of the program, from `source` to `out`.
template <typename T>
__device__ void make_image(const SampleState& state, const SharedLayout& layout,
                           unsigned char* memory, const std::uint8_t* source, T* out) {
  const pixel::Program& program = state.program;
  const pixel::EraseRect rect = state.erased;
  const T* table = reinterpret_cast<const T*>(memory + layout.table);
  std::uint8_t* const images = memory + layout.image;
  const std::int32_t channels = program.channels, num_steps = program.num_steps;
  pixel::ImageView image{source, program.in, channels};
  int first = 0, turn = 1;
  for (;;) {
    const pixel::StageSteps steps = pixel::stage_at(program, first);
    const pixel::Extent extent = pixel::stage_extent(program, steps);
    if (steps.end == num_steps) {
      pixel::with_stage(program, state.drawn, steps, image, [=](const auto& stage) {
        for_each_value(extent, channels, [&](int y, int x, int c, int i) {
          out[i] = pixel::is_erased(rect, y, x) ? T(0) : table[256 * c + stage(y, x, c)];
        });
      });
      return;
    }
    std::uint8_t* pixels = images + turn * layout.image_bytes;
    pixel::with_stage(program, state.drawn, steps, image, [=](const auto& stage) {
      for_each_value(extent, channels,
                     [&](int y, int x, int c, int i) { pixels[i] = std::uint8_t(stage(y, x, c)); });
    });
    __syncthreads();
    image = {pixels, extent, channels};
    turn = 1 - turn;
    first = steps.end;
  }
}

/// One block a sample. T: the bits of the image's type.
template <typename T>
__global__ void __launch_bounds__(kMaxWarps* kWarp)
    feed_kernel(const __grid_constant__ FeedSource source, const __grid_constant__ FeedPlace place,
                const __grid_constant__ FeedTarget target,
                const __grid_constant__ SharedLayout layout) {
  extern __shared__ __align__(kImageAlignment) unsigned char memory[];
  SampleState& state = *reinterpret_cast<SampleState*>(memory);
  const int thread = int(threadIdx.x) - kWarp, num_threads = int(blockDim.x) - kWarp;
  if (thread == -kWarp) find_sample(source, place, state);
  if (thread >= 0 && source.image_field >= 0) {
    copy_words<std::uint32_t>(&state.program, source.program,
                              sizeof(pixel::Program) / sizeof(std::uint32_t), thread, num_threads);
    copy_words<std::uint32_t>(memory + layout.table, source.table,
                              (layout.image - layout.table) / std::int64_t(sizeof(std::uint32_t)),
                              thread, num_threads);
  }
  __syncthreads();
  const std::int64_t sample = state.sample;
  if (sample < 0) return;
  const std::uint8_t* image = memory + layout.image;
  for (int i = 0; i < source.num_fields; ++i) {
    const FeedSource::Field& field = source.fields[i];
    const std::byte* from = field.data + sample * field.stride;
    if (i == source.image_field && layout.direct) {
      image = reinterpret_cast<const std::uint8_t*>(from);
    } else if (i == source.image_field) {
      copy_words<uint4>(memory + layout.image, from, field.stride / kImageAlignment,
                        int(threadIdx.x), int(blockDim.x));
    } else if (target.fields[i] != nullptr) {
      copy_sample(static_cast<std::byte*>(target.fields[i]) + blockIdx.x * field.bytes, from,
                  field.bytes);
    }
  }
  if (source.image_field < 0 || target.fields[source.image_field] == nullptr) return;
  draw_all(source, state);
  __syncthreads();
  T* out = static_cast<T*>(target.fields[source.image_field]);
  make_image(state, layout, memory, image,
             out + std::int64_t(blockIdx.x) * state.program.out_elements());
}

__global__ void advance_kernel(std::int64_t* base, int k) { *base += k; }

int num_threads_for(const pixel::Program* program) {
  if (program == nullptr) return kMinWarps * kWarp;
  const std::int32_t pieces = (program->out.width * program->channels + kWarp - 1) / kWarp;
  const std::int64_t warps =
      (std::int64_t(program->out.height) * pieces + kRowsPerWarp - 1) / kRowsPerWarp;
  return int(std::clamp<std::int64_t>(warps, kMinWarps, kMaxWarps)) * kWarp;
}

int shared_memory_limit() {
  int device = 0, bytes = 0;
  TR_CUDA(cudaGetDevice(&device));
  TR_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

}  // namespace

std::string refuse_feed(const pixel::Program& program) {
  if (layout_of(&program).direct) return "";
  const std::int64_t limit = shared_memory_limit();
  // In 64 bits: the largest images would not fit the layout's numbers.
  const std::int64_t bytes =
      2 * std::int64_t(program.largest_bytes) + layout_of(nullptr).num_bytes +
      256 * std::int64_t(program.channels * size_of(program.dtype)) + 3 * kImageAlignment;
  if (bytes <= limit) return "";
  return "a sample with images of up to " + std::to_string(program.largest_bytes) +
         " bytes on the way needs " + std::to_string(bytes) +
         " bytes of shared memory, a block has " + std::to_string(limit);
}

void prepare_feed() {
  const int limit = shared_memory_limit();
  for (const void* kernel : {reinterpret_cast<const void*>(feed_kernel<std::uint32_t>),
                             reinterpret_cast<const void*>(feed_kernel<std::uint16_t>)}) {
    TR_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit));
  }
}

void enqueue_feed(cudaStream_t stream, const DeviceSplit& split, const FeedRow* rows,
                  const std::int64_t* base, int k, int ring_size, const FeedTarget& target,
                  std::int64_t batch) {
  TR_ASSERT(k >= 0 && ring_size >= 1 && batch >= 0);
  if (batch == 0) return;  // a rank of a ragged tail
  const pixel::Program* program = split.program();
  const SharedLayout layout = layout_of(program);
  const bool wide = program == nullptr || program->dtype == DType::FP32;
  const auto kernel = wide ? feed_kernel<std::uint32_t> : feed_kernel<std::uint16_t>;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(batch));
  config.blockDim = dim3(unsigned(num_threads_for(program)));
  config.dynamicSmemBytes = std::size_t(layout.num_bytes);
  config.stream = stream;
  TR_CUDA(cudaLaunchKernelEx(&config, kernel, split.source(), FeedPlace{rows, base, k, ring_size},
                             target, layout));
}

void enqueue_advance(cudaStream_t stream, std::int64_t* base, int k) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.stream = stream;
  TR_CUDA(cudaLaunchKernelEx(&config, advance_kernel, base, k));
}

}  // namespace tr::cuda
