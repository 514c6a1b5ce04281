// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn.h"

#include <array>
#include <map>
#include <vector>

#include "backend/cpu/onednn_shared.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

// Measured on 200 x {784, 1024, 512} products with two threads: narrower tiles lose to packing,
// wider ones leave threads idle. The long side of a weight's gradient is cut less, its operand is
// packed per tile.
constexpr std::int64_t kTileRows = 256;
constexpr std::int64_t kTileColumns = 128;
constexpr std::int64_t kGradientTileRows = 128;
constexpr std::int64_t kGradientTileColumns = 512;

dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool transposed,
                          DType dtype) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1};
  return {{rows, columns}, onednn_type(dtype), strides};
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
      args[i] = onednn_argument(kArgs[i], prepared.memories[i], data[i]);
    }
    onednn_check(dnnl_primitive_execute(prepared.primitive.get(), onednn_stream().get(),
                                        int(args.size()), args.data()),
                 "a product");
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
        const dnnl::primitive_attr attr = onednn_user_scratchpad();
#if DNNL_VERSION_MAJOR >= 3  // which has no operation descriptors any more (Ubuntu 24.04)
        const dnnl::matmul::primitive_desc desc(onednn_engine(), a, b, c, attr);
#else
        const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, onednn_engine());
#endif
        const auto scratch = desc.scratchpad_desc();
        scratch_bytes_ = std::max(scratch_bytes_, round_up(std::int64_t(scratch.get_size()), 64));
        found = primitives_
                    .emplace(std::pair(t.num_rows, t.num_columns),
                             std::pair(dnnl::matmul(desc), scratch))
                    .first;
      }
      const auto& [primitive, scratch] = found->second;
      return {primitive,
              {onednn_placeholder(a), onednn_placeholder(b), onednn_placeholder(c),
               onednn_placeholder(scratch)}};
    } catch (const dnnl::error& error) {
      throw_as<DeviceError>("oneDNN: no {} product of [{}, {}] x [{}, {}]: {}", name_of(s.dtype),
                            t.num_rows, s.k, s.k, t.num_columns, error.what());
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
