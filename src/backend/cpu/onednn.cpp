// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <array>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "backend/cpu/partition.h"
#include "core/check.h"
#include "core/format.h"

// As OpenMP names them; clang comes without omp.h, gcc's is not on its path.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace tr::cpu {
namespace {

// Measured on 200 x {784, 1024, 512} products with two threads: narrower tiles lose to packing,
// wider ones leave threads idle. The long side of a weight's gradient is cut less, its operand is
// packed per tile.
constexpr std::int64_t kTileRows = 256;
constexpr std::int64_t kTileColumns = 128;
constexpr std::int64_t kGradientTileRows = 128;
constexpr std::int64_t kGradientTileColumns = 512;

/// oneDNN asks OpenMP for its number of threads; parallel work is ours, so it gets one. The
/// caller's own setting comes back afterwards.
class OneThread {
 public:
  OneThread() : former_(omp_get_max_threads()) {
    if (former_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (former_ != 1) omp_set_num_threads(former_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int former_;
};

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                          DType dtype) {
  const auto type =
      dtype == DType::BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1};
  return {{rows, columns}, type, strides};
}

class OneDnnMatmul final : public TiledMatmul {
 public:
  OneDnnMatmul(const MatmulShape& shape, std::int64_t tile_rows, std::int64_t tile_columns)
      : TiledMatmul(shape, tile_rows, tile_columns) {
    const OneThread one;
    for (std::int64_t i = 0; i < num_tiles(); ++i) tiles_.push_back(make_tile(i));
  }

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run_tile(std::int64_t index, const void* a, const void* b, float* c, const std::byte*,
                std::byte* scratch) const override {
    const OneThread one;
    const MatmulShape& s = shape();
    const MatmulTile place = tile(index);
    const std::int64_t size = std::int64_t(size_of(s.dtype));
    const std::int64_t a_offset = s.transpose_a ? place.row : place.row * s.lda();
    const std::int64_t b_offset = s.transpose_b ? place.column * s.ldb() : place.column;
    const Prepared& prepared = tiles_[std::size_t(index)];
    const std::array<const void*, 4> data = {static_cast<const std::byte*>(a) + a_offset * size,
                                             static_cast<const std::byte*>(b) + b_offset * size,
                                             c + place.row * s.n + place.column, scratch};
    std::array<dnnl_exec_arg_t, 4> args{};
    for (std::size_t i = 0; i < 4; ++i) {
      dnnl_memory_t memory = prepared.memories[i].get();
      check(dnnl_memory_set_data_handle(memory, const_cast<void*>(data[i])));
      args[i] = {kArgs[i], memory};
    }
    check(dnnl_primitive_execute(prepared.primitive.get(), stream().get(), int(args.size()),
                                 args.data()));
  }

 private:
  static constexpr std::array<int, 4> kArgs = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                               DNNL_ARG_SCRATCHPAD};
  /// Memory objects carry the addresses of one execution, so every tile has its own.
  struct Prepared {
    dnnl::matmul primitive;
    std::array<dnnl::memory, 4> memories;
  };

  Prepared make_tile(std::int64_t index) {
    const MatmulShape& s = shape();
    const MatmulTile t = tile(index);
    const auto a = matrix(t.num_rows, s.k, s.lda(), s.transpose_a, s.dtype);
    const auto b = matrix(s.k, t.num_columns, s.ldb(), s.transpose_b, s.dtype);
    const auto c = matrix(t.num_rows, t.num_columns, s.n, false, DType::FP32);
    try {
      auto found = primitives_.find({t.num_rows, t.num_columns});
      if (found == primitives_.end()) {
        dnnl::primitive_attr attr;
        attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3  // which has no operation descriptors any more (Ubuntu 24.04)
        const dnnl::matmul::primitive_desc desc(engine(), a, b, c, attr);
#else
        const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, engine());
#endif
        const auto scratch = desc.scratchpad_desc();
        scratch_bytes_ = std::max(scratch_bytes_, round_up(std::int64_t(scratch.get_size()), 64));
        found = primitives_
                    .emplace(std::pair(t.num_rows, t.num_columns),
                             std::pair(dnnl::matmul(desc), scratch))
                    .first;
      }
      const auto& [primitive, scratch] = found->second;
      return {
          primitive,
          {dnnl::memory(a, engine(), DNNL_MEMORY_NONE), dnnl::memory(b, engine(), DNNL_MEMORY_NONE),
           dnnl::memory(c, engine(), DNNL_MEMORY_NONE),
           dnnl::memory(scratch, engine(), DNNL_MEMORY_NONE)}};
    } catch (const dnnl::error& error) {
      throw_as<DeviceError>("oneDNN: no {} product of [{}, {}] x [{}, {}]: {}", name_of(s.dtype),
                            t.num_rows, s.k, s.k, t.num_columns, error.what());
    }
  }

  static void check(dnnl_status_t status) {
    if (status != dnnl_success) {
      throw_as<DeviceError>("oneDNN: matmul failed: {}", dnnl_status2str(status));
    }
  }

  std::vector<Prepared> tiles_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<dnnl::matmul, dnnl::memory::desc>>
      primitives_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace

bool onednn_has_native_bf16() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_amx;
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

std::unique_ptr<TiledMatmul> make_onednn_matmul(const MatmulShape& shape) {
  if (!shape.transpose_a) return std::make_unique<OneDnnMatmul>(shape, kTileRows, kTileColumns);
  // Wide gradients are cut into equal runs of columns, none much narrower than the others.
  const std::int64_t runs = ceil_div(shape.n, kGradientTileColumns);
  const std::int64_t columns = round_up(ceil_div(shape.n, runs), 16);
  return std::make_unique<OneDnnMatmul>(shape, kGradientTileRows, columns);
}

}  // namespace tr::cpu
