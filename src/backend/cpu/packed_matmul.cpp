// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matmul.h"

#include "backend/cpu/amx_kernel.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/prefetch.h"
#include "core/check.h"

namespace tr::cpu {
namespace {

/// Terms of a sum that are packed at a time: 32 x 288 floats are 36 KiB, which the blocks of the
/// other operand find in the nearest caches (1024 terms: 137 instead of 200 GFLOP/s on two cores).
constexpr std::int64_t kMaxDepth = 288;
/// Tiles that a product is cut into at least, if it is large enough, so that threads find work.
constexpr std::int64_t kWantedTiles = 16;
/// Columns of a tile that packs B: 32, or 64 where that still gives enough tiles.
constexpr std::int64_t kWideColumns = 2 * kMicroColumns;
/// Rows of a tile that packs B (where columns alone give less than half of the tiles), at least.
constexpr std::int64_t kMinRows = 4 * kMicroRows;
/// Rows of a tile that packs A.
constexpr std::int64_t kMinOwnRows = 32, kMaxOwnRows = 128;
/// Blocks of A that one setup task packs: small, so that threads share the packing too.
constexpr std::int64_t kSetupBlocks = 2;
/// Terms that all blocks of a tile are packed by together: a line of the source holds parts of
/// several blocks, and lines 4096 bytes apart push each other out of the cache.
constexpr std::int64_t kPackedTogether = 8;

/// Rows cut into blocks of nearly equal height, none above `most`; for tiles, of `most` but the
/// last.
struct RowBlocks {
  std::int64_t rows = 0;
  std::int64_t most = kMicroRows;
  bool tiles = false;
  std::int64_t count() const { return ceil_div(rows, most); }
  std::int64_t begin(std::int64_t block) const {
    return tiles ? std::min(rows, block * most) : block * rows / count();
  }
  std::int64_t height(std::int64_t block) const { return begin(block + 1) - begin(block); }
};

bool cuts_rows(const MatmulShape& shape) {
  return shape.cut_rows && shape.m >= kWantedTiles / 2 * kMinOwnRows;
}

std::int64_t tile_columns(const MatmulShape& shape) {
  if (cuts_rows(shape)) return shape.n;
  return shape.n >= kWantedTiles * kWideColumns ? kWideColumns : kMicroColumns;
}

std::int64_t tile_rows(const MatmulShape& shape, const MicroKernels& kernels) {
  if (cuts_rows(shape)) {
    const std::int64_t rows = std::clamp(ceil_div(shape.m, kWantedTiles), kMinOwnRows, kMaxOwnRows);
    return kernels.tiles ? round_up(rows, kernels.rows) : rows;
  }
  const std::int64_t across = std::max<std::int64_t>(1, ceil_div(shape.n, tile_columns(shape)));
  const std::int64_t down = ceil_div(kWantedTiles / 2, across);
  return round_up(std::max(kMinRows, ceil_div(shape.m, down)), kernels.rows);
}

class PackedMatmul final : public TiledMatmul {
 public:
  PackedMatmul(const MatmulShape& shape, const MicroKernels& kernels)
      : TiledMatmul(shape, tile_rows(shape, kernels), tile_columns(shape)),
        kernels_(kernels),
        shares_b_(cuts_rows(shape)),
        pairs_(shape.dtype == DType::BF16),
        words_(round_up(pairs_ ? ceil_div(shape.k, 2) : shape.k, kernels.step)),
        num_slices_(std::max<std::int64_t>(1, ceil_div(words_, kMaxDepth))) {
    TR_ASSERT(shape.dtype == DType::FP32 || shape.dtype == DType::BF16);
  }

  std::int64_t num_setup_tasks() const override {
    return shares_b_ ? num_panels() : num_row_tiles() * setup_tasks_of_tile();
  }
  std::int64_t shared_bytes() const override {
    const std::int64_t side = shares_b_ ? num_panels() * kMicroColumns : stored_rows(shape().m);
    return side * words_ * std::int64_t(sizeof(float));
  }

  // Of A: a block of rows lies at its first row times words_: [words_][height] inside. Of B: a
  // panel lies at its first column times words_: [words_][kMicroColumns].
  void run_setup(std::int64_t task, const void* a, const void* b,
                 std::byte* shared) const override {
    auto* packed = reinterpret_cast<float*>(shared);
    if (shares_b_) {
      const std::int64_t column = task * kMicroColumns;
      pack_panel(b, {0, words_}, column, packed + column * words_);
      return;
    }
    const MatmulTile place = row_tile(task / setup_tasks_of_tile());
    const RowBlocks blocks = blocks_of(place);
    const std::int64_t first = task % setup_tasks_of_tile() * kSetupBlocks;
    const std::int64_t last = std::min(first + kSetupBlocks, blocks.count());
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t row = place.row + blocks.begin(block);
      pack_block(a, {0, words_}, row, blocks.height(block), packed + row * words_);
    }
  }

  std::int64_t scratch_bytes() const override {
    return (private_floats() + sum_floats()) * std::int64_t(sizeof(float));
  }

  void run_tile(std::int64_t index, const void* a, const void* b, float* c, const std::byte* shared,
                std::byte* scratch) const override {
    const MatmulTile place = tile(index);
    auto* packed = reinterpret_cast<float*>(scratch);
    if (kernels_.begin != nullptr) kernels_.begin();
    for (std::int64_t s = 0; s < num_slices_; ++s) {
      const Slice k = slice(s);
      pack_private(place, a, b, k, packed);
      Prefetch next;
      if (s + 1 < num_slices_) {
        next = source_of(place, a, b, slice(s + 1));
      } else if (index + 1 < num_tiles()) {
        next = source_of(tile(index + 1), a, b, slice(0));
      }
      multiply({place, k, reinterpret_cast<const float*>(shared), packed, c}, next);
    }
    if (kernels_.end != nullptr) kernels_.end();
  }

 private:
  /// Words [begin, begin + depth) of every sum.
  struct Slice {
    std::int64_t begin;
    std::int64_t depth;
    std::int64_t end() const { return begin + depth; }
  };
  /// What a packed block holds: `count` rows or columns (padded to `width`) of `num_k` terms.
  struct Block {
    std::int64_t count;
    std::int64_t num_k;
    std::int64_t width;
  };
  /// One slice of a tile.
  struct Product {
    MatmulTile place;
    Slice k;
    const float* shared;
    float* scratch;
    float* c;
  };

  Slice slice(std::int64_t index) const {
    const std::int64_t steps = words_ / kernels_.step;
    const std::int64_t begin = index * steps / num_slices_ * kernels_.step;
    return {begin, (index + 1) * steps / num_slices_ * kernels_.step - begin};
  }
  RowBlocks blocks_of(const MatmulTile& place) const {
    return {place.num_rows, kernels_.rows, kernels_.tiles};
  }
  /// Rows that `rows` take where they are packed.
  std::int64_t stored_rows(std::int64_t rows) const {
    return kernels_.tiles ? round_up(rows, kernels_.rows) : rows;
  }
  std::int64_t num_panels() const { return ceil_div(shape().n, kMicroColumns); }
  std::int64_t num_row_tiles() const { return ceil_div(shape().m, tile(0).num_rows); }
  /// Any tile of the given run of rows.
  MatmulTile row_tile(std::int64_t index) const {
    return tile(shape().cut_rows ? index * (num_tiles() / num_row_tiles()) : index);
  }
  /// Of the first tile, the highest; tasks beyond the last block of a lower one do nothing.
  std::int64_t setup_tasks_of_tile() const {
    return std::max<std::int64_t>(1, ceil_div(blocks_of(tile(0)).count(), kSetupBlocks));
  }
  /// Of the operand that a tile packs for itself, a multiple of a line.
  std::int64_t private_floats() const {
    const std::int64_t side =
        shares_b_ ? stored_rows(tile(0).num_rows) : round_up(tile(0).num_columns, kMicroColumns);
    const std::int64_t steps = ceil_div(words_ / kernels_.step, num_slices_);
    return round_up(steps * kernels_.step * side, kMicroColumns);
  }
  /// Sums between slices stay beside the packed operand, dense: in C, rows of 4096 bytes would
  /// collide in the cache, and loads wait for stores at equal places of other pages.
  std::int64_t sum_floats() const {
    if (num_slices_ == 1) return 0;
    return stored_rows(tile(0).num_rows) * round_up(tile(0).num_columns, kMicroColumns);
  }

  /// Packs from element `from` of an operand; `by_k`: its rows are terms, else they are what is
  /// counted.
  void pack(const void* operand, std::int64_t from, std::int64_t ld, bool by_k, const Block& block,
            float* packed) const {
    if (pairs_) {
      const auto* source = static_cast<const std::uint16_t*>(operand) + from;
      const auto how = by_k ? pack_rows_pairs : pack_transposed_pairs;
      how(source, ld, block.count, block.num_k, block.width, packed);
    } else {
      const auto* source = static_cast<const float*>(operand) + from;
      const auto how = by_k ? pack_rows : pack_transposed;
      how(source, ld, block.count, block.num_k, block.width, packed);
    }
  }

  std::int64_t terms_per_word() const { return pairs_ ? 2 : 1; }
  std::int64_t num_terms(const Slice& k) const {
    return std::min(k.depth * terms_per_word(), shape().k - k.begin * terms_per_word());
  }

  void pack_panel(const void* b, const Slice& k, std::int64_t column, float* panel) const {
    const MatmulShape& s = shape();
    const std::int64_t term = k.begin * terms_per_word();
    const Block block{std::min<std::int64_t>(kMicroColumns, s.n - column), num_terms(k),
                      kMicroColumns};
    const std::int64_t from = s.transpose_b ? column * s.ldb() + term : term * s.ldb() + column;
    pack(b, from, s.ldb(), !s.transpose_b, block, panel);
    const std::int64_t filled = ceil_div(block.num_k, terms_per_word());
    std::fill(panel + filled * kMicroColumns, panel + k.depth * kMicroColumns, 0.0f);
  }

  void pack_block(const void* a, const Slice& k, std::int64_t row, std::int64_t height,
                  float* packed) const {
    const MatmulShape& s = shape();
    const std::int64_t term = k.begin * terms_per_word();
    const std::int64_t from = s.transpose_a ? term * s.lda() + row : row * s.lda() + term;
    if (kernels_.tiles) {
      pack_amx_block(static_cast<const std::uint16_t*>(a) + from, s.lda(), s.transpose_a, height,
                     num_terms(k), packed);
      return;
    }
    pack(a, from, s.lda(), s.transpose_a, {height, num_terms(k), height}, packed);
  }

  void pack_private(const MatmulTile& place, const void* a, const void* b, const Slice& k,
                    float* packed) const {
    if (!shares_b_) {
      for (std::int64_t column = 0; column < place.num_columns; column += kMicroColumns) {
        pack_panel(b, k, place.column + column, packed + column * k.depth);
      }
      return;
    }
    const RowBlocks blocks = blocks_of(place);
    const std::int64_t together = std::max(kPackedTogether, kernels_.step);
    for (std::int64_t word = k.begin; word < k.end(); word += together) {
      const Slice part{word, std::min(together, k.end() - word)};
      for (std::int64_t block = 0; block < blocks.count(); ++block) {
        const std::int64_t row = blocks.begin(block), height = blocks.height(block);
        pack_block(a, part, place.row + row, height,
                   packed + row * k.depth + (word - k.begin) * stored_rows(height));
      }
    }
  }

  /// The bytes that pack_private() will read.
  Prefetch source_of(const MatmulTile& place, const void* a, const void* b, const Slice& k) const {
    const MatmulShape& s = shape();
    const std::int64_t term = k.begin * terms_per_word(), terms = num_terms(k);
    const std::int64_t first = shares_b_ ? place.row : place.column;
    const std::int64_t count = shares_b_ ? place.num_rows : place.num_columns;
    const std::int64_t ld = shares_b_ ? s.lda() : s.ldb();
    const bool by_k = shares_b_ ? s.transpose_a : !s.transpose_b;
    const auto bytes = std::int64_t(size_of(s.dtype));
    const auto* operand = static_cast<const std::byte*>(shares_b_ ? a : b);
    if (by_k) return {operand + (term * ld + first) * bytes, ld * bytes, terms, count * bytes};
    return {operand + (first * ld + term) * bytes, ld * bytes, count, terms * bytes};
  }

  void multiply(const Product& product, const Prefetch& next) const {
    const std::int64_t num_columns = product.place.num_columns;
    const RowBlocks blocks = blocks_of(product.place);
    const std::int64_t panels = ceil_div(num_columns, kMicroColumns);
    const std::int64_t calls = blocks.count() * panels;
    // A block of A meets all panels while it is in the nearest cache.
    for (std::int64_t call = 0; call < calls; ++call) {
      const std::int64_t block = call / panels, panel = call % panels;
      next.part(call, calls);
      multiply_block(product,
                     {blocks.begin(block), panel * kMicroColumns, blocks.height(block),
                      std::min<std::int64_t>(kMicroColumns, num_columns - panel * kMicroColumns)});
    }
  }

  /// `at` is a block of the tile, counted from its corner.
  void multiply_block(const Product& product, const MatmulTile& at) const {
    const MatmulShape& s = shape();
    const auto& [place, k, shared, scratch, c] = product;
    float* sum = scratch + private_floats() + at.row * round_up(place.num_columns, kMicroColumns) +
                 at.column * stored_rows(at.num_rows);
    MicroCall call;
    call.a = shares_b_
                 ? scratch + at.row * k.depth
                 : shared + (place.row + at.row) * words_ + k.begin * stored_rows(at.num_rows);
    call.b = shares_b_ ? shared + at.column * words_ + k.begin * kMicroColumns
                       : scratch + at.column * k.depth;
    if (k.begin > 0) call.sum = sum;
    call.k = k.depth;
    call.rows = at.num_rows;
    call.columns = at.num_columns;
    call.c = c + (place.row + at.row) * s.n + place.column + at.column;
    call.ldc = s.n;
    if (k.end() < words_) {
      call.c = sum;
      call.ldc = kMicroColumns;
      call.rows = stored_rows(at.num_rows);
      call.columns = kernels_.tiles ? kMicroColumns : round_up(at.num_columns, kMicroColumns / 2);
    }
    kernels_.of(at.num_rows, at.num_columns)(call);
  }

  const MicroKernels& kernels_;
  bool shares_b_;       // tiles are runs of rows: B is packed once for all, A by the tile
  bool pairs_;          // bf16: a word is a pair of terms
  std::int64_t words_;  // of a whole sum
  std::int64_t num_slices_;
};

}  // namespace

bool has_packed_matmul(DType dtype) {
  if (dtype == DType::FP32) return __builtin_cpu_supports("avx512f") != 0;
  return dtype == DType::BF16 && __builtin_cpu_supports("avx512bf16") != 0;
}

std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape) {
  const bool pairs = shape.dtype == DType::BF16;
  return std::make_unique<PackedMatmul>(shape, pairs ? bf16_micro_kernels() : fp32_micro_kernels());
}

std::unique_ptr<TiledMatmul> make_amx_matmul(const MatmulShape& shape) {
  TR_ASSERT(shape.dtype == DType::BF16);
  return std::make_unique<PackedMatmul>(shape, amx_micro_kernels());
}

std::unique_ptr<TiledMatmul> make_emulated_amx_matmul(const MatmulShape& shape) {
  TR_ASSERT(shape.dtype == DType::BF16);
  return std::make_unique<PackedMatmul>(shape, emulated_amx_micro_kernels());
}

}  // namespace tr::cpu
