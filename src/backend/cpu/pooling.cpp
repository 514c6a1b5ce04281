// SPDX-License-Identifier: Apache-2.0
// Pooling. Windows along an axis are tables made beforehand; loops run over channels. Gradients are
// gathered: a cell adds what its windows give, in their order, so overlapping windows give the same
// bytes whatever runs beside them.
#include "ops/conv_geometry.h"

#include <limits>
#include <vector>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

/// Half-open run of cells or windows.
struct Span {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};

/// The windows along one axis of an image.
struct Axis {
  std::vector<Span> windows;         // cells of each, padding left out
  std::vector<std::int64_t> origin;  // where each begins, padding counted: below 0 in it
  std::vector<std::int64_t> divisor;
  std::vector<Span> covering;  // windows that hold a cell

  std::int64_t num_cells() const { return std::int64_t(covering.size()); }
  std::int64_t num_windows() const { return std::int64_t(windows.size()); }

  void add(Span cells, std::int64_t from, std::int64_t count) {
    windows.push_back(cells), origin.push_back(from), divisor.push_back(count);
  }
  /// Fills `covering`: begins and ends of windows never go back.
  void cover(std::int64_t cells) {
    std::int64_t first = 0, last = 0;
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      while (first < num_windows() && windows[std::size_t(first)].end <= cell) ++first;
      last = std::max(last, first);
      while (last < num_windows() && windows[std::size_t(last)].begin <= cell) ++last;
      covering.push_back({first, last});
    }
  }
};

Axis pool_axis(const PoolGeometry& g, int axis, bool count_padding) {
  const std::int64_t cells = axis == 0 ? g.height : g.width;
  const std::int64_t windows = axis == 0 ? g.out_height : g.out_width;
  Axis made;
  for (std::int64_t i = 0; i < windows; ++i) {
    const std::int64_t from = i * g.stride[axis] - g.padding[axis];
    const Span inside = {std::max<std::int64_t>(0, from), std::min(cells, from + g.kernel[axis])};
    // What rounding up adds beyond the padding counts in no divisor.
    const std::int64_t padded = std::min(from + g.kernel[axis], cells + g.padding[axis]) - from;
    made.add(inside, from, count_padding ? padded : inside.size());
  }
  made.cover(cells);
  return made;
}

Axis adaptive_axis(std::int64_t cells, std::int64_t windows) {
  Axis made;
  for (std::int64_t i = 0; i < windows; ++i) {
    const Span inside = {AdaptiveGeometry::begin(i, cells, windows),
                         AdaptiveGeometry::end(i, cells, windows)};
    made.add(inside, inside.begin, inside.size());
  }
  made.cover(cells);
  return made;
}

/// Images of `channels`, their windows down and across.
struct Windows {
  Axis down, across;
  std::int64_t batch = 0, channels = 0;

  std::int64_t cell(std::int64_t image, std::int64_t h, std::int64_t w) const {
    return ((image * down.num_cells() + h) * across.num_cells() + w) * channels;
  }
  std::int64_t window(std::int64_t image, std::int64_t p, std::int64_t q) const {
    return ((image * down.num_windows() + p) * across.num_windows() + q) * channels;
  }

  /// Calls f(image, row, column) for every place of [batch, rows, columns], rows in parallel.
  template <typename F>
  void for_places(ThreadPool& pool, std::int64_t rows, std::int64_t columns, F&& f) const {
    if (channels == 0) return;
    for_chunks(pool, batch * rows, rows_per_task(columns * channels),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   for (std::int64_t column = 0; column < columns; ++column) {
                     f(row / rows, row % rows, column);
                   }
                 }
               });
  }
  template <typename F>
  void for_windows(ThreadPool& pool, F&& f) const {
    for_places(pool, down.num_windows(), across.num_windows(), f);
  }
  template <typename F>
  void for_cells(ThreadPool& pool, F&& f) const {
    for_places(pool, down.num_cells(), across.num_cells(), f);
  }
  /// Calls f(first channel, count) for blocks of channels.
  template <typename F>
  void for_channels(F&& f) const {
    for (std::int64_t c = 0; c < channels; c += kRowBlock) f(c, std::min(kRowBlock, channels - c));
  }
};

Windows pool_windows(const Attrs& attrs, const TensorType& x, bool count_padding) {
  const PoolGeometry g = pool_geometry(attrs, x);
  return {pool_axis(g, 0, count_padding), pool_axis(g, 1, count_padding), g.batch, g.channels};
}

/// A window's largest values so far and the cells that they came from.
struct Best {
  float value[kRowBlock];
  std::int32_t cell[kRowBlock];

  void begin(std::int32_t first, std::int64_t n) {
    std::fill_n(value, n, -std::numeric_limits<float>::infinity());
    std::fill_n(cell, n, first);
  }
  /// The first of equal values stays; a NaN wins.
  void meet(const float* values, std::int32_t at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const bool wins = values[i] > value[i] || values[i] != values[i];
      value[i] = wins ? values[i] : value[i];
      cell[i] = wins ? at : cell[i];
    }
  }
};

class Maxpool final : public PreparedKernel {
 public:
  explicit Maxpool(const KernelQuery& query)
      : windows_(pool_windows(query.attrs, query.in[0], false)),
        kernel_width_(query.attrs.ints("kernel")[1]) {}

  void run(const KernelArgs& args) const override {
    dispatch_float(args.in_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      windows_.for_windows(args.pool(), [&](std::int64_t n, std::int64_t p, std::int64_t q) {
        windows_.for_channels([&](std::int64_t c, std::int64_t count) {
          const std::int64_t at = windows_.window(n, p, q) + c;
          find(args.in<T>(0) + c, {n, p, q}, count, args.out<T>(0) + at,
               args.out<std::uint8_t>(1) + at);
        });
      });
    });
  }

 private:
  struct Place {
    std::int64_t n, p, q;
  };
  template <typename T>
  void find(const T* x, Place at, std::int64_t count, T* y, std::uint8_t* index) const {
    const Span rows = windows_.down.windows[std::size_t(at.p)];
    const Span columns = windows_.across.windows[std::size_t(at.q)];
    const std::int64_t top = windows_.down.origin[std::size_t(at.p)];
    const std::int64_t left = windows_.across.origin[std::size_t(at.q)];
    const auto cell = [&](std::int64_t h, std::int64_t w) {
      return std::int32_t((h - top) * kernel_width_ + w - left);
    };
    Best best;
    best.begin(cell(rows.begin, columns.begin), count);
    float widened[kRowBlock];
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        best.meet(as_floats(x + windows_.cell(at.n, h, w), widened, count), cell(h, w), count);
      }
    }
    store_floats(best.value, y, count);
    for (std::int64_t i = 0; i < count; ++i) index[i] = std::uint8_t(best.cell[i]);
  }

  Windows windows_;
  std::int64_t kernel_width_;
};

/// Gradients: dx of a cell is the sum of what `add` gives it from each window that holds it.
template <typename T, typename Add>
void gather(const KernelArgs& args, const Windows& windows, const T* dy, T* dx, Add&& add) {
  windows.for_cells(args.pool(), [&](std::int64_t n, std::int64_t h, std::int64_t w) {
    const Span rows = windows.down.covering[std::size_t(h)];
    const Span columns = windows.across.covering[std::size_t(w)];
    windows.for_channels([&](std::int64_t c, std::int64_t count) {
      float widened[kRowBlock], sum[kRowBlock];
      std::fill_n(sum, count, 0.0f);
      for (std::int64_t p = rows.begin; p < rows.end; ++p) {
        for (std::int64_t q = columns.begin; q < columns.end; ++q) {
          const std::int64_t at = windows.window(n, p, q) + c;
          add(sum, as_floats(dy + at, widened, count), at, p, q, h, w, count);
        }
      }
      store_floats(sum, dx + windows.cell(n, h, w) + c, count);
    });
  });
}

class MaxpoolBackward final : public PreparedKernel {
 public:
  explicit MaxpoolBackward(const KernelQuery& query)
      : windows_(pool_windows(query.attrs, query.out[0], false)),
        kernel_width_(query.attrs.ints("kernel")[1]) {}

  void run(const KernelArgs& args) const override {
    const auto* index = args.in<std::uint8_t>(1);
    dispatch_float(args.out_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      gather(args, windows_, args.in<T>(0), args.out<T>(0),
             [&](float* sum, const float* dy, std::int64_t at, std::int64_t p, std::int64_t q,
                 std::int64_t h, std::int64_t w, std::int64_t count) {
               const std::int64_t row = h - windows_.down.origin[std::size_t(p)];
               const std::int64_t column = w - windows_.across.origin[std::size_t(q)];
               const auto cell = std::uint8_t(row * kernel_width_ + column);
               for (std::int64_t i = 0; i < count; ++i) {
                 sum[i] += index[at + i] == cell ? dy[i] : 0.0f;
               }
             });
    });
  }

 private:
  Windows windows_;
  std::int64_t kernel_width_;
};

using MakeWindows = Windows (*)(const Attrs&, const TensorType& x);

Windows average_windows(const Attrs& attrs, const TensorType& x) {
  return pool_windows(attrs, x, attrs.flag("count_include_pad"));
}

Windows adaptive_windows(const Attrs& attrs, const TensorType& x) {
  const AdaptiveGeometry g = adaptive_geometry(attrs, x);
  return {adaptive_axis(g.height, g.out_height), adaptive_axis(g.width, g.out_width), g.batch,
          g.channels};
}

Windows whole_windows(const Attrs&, const TensorType& x) {
  return {adaptive_axis(x.shape[1], 1), adaptive_axis(x.shape[2], 1), x.shape[0], x.shape[3]};
}

class Average final : public PreparedKernel {
 public:
  explicit Average(Windows windows) : windows_(std::move(windows)) {}

  void run(const KernelArgs& args) const override {
    dispatch_float(args.in_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      windows_.for_windows(args.pool(), [&](std::int64_t n, std::int64_t p, std::int64_t q) {
        windows_.for_channels([&](std::int64_t c, std::int64_t count) {
          average(args.in<T>(0) + c, n, p, q, count, args.out<T>(0) + windows_.window(n, p, q) + c);
        });
      });
    });
  }

 private:
  template <typename T>
  void average(const T* x, std::int64_t n, std::int64_t p, std::int64_t q, std::int64_t count,
               T* y) const {
    const Span rows = windows_.down.windows[std::size_t(p)];
    const Span columns = windows_.across.windows[std::size_t(q)];
    float widened[kRowBlock], sum[kRowBlock];
    std::fill_n(sum, count, 0.0f);
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const float* values = as_floats(x + windows_.cell(n, h, w), widened, count);
        for (std::int64_t i = 0; i < count; ++i) sum[i] += values[i];
      }
    }
    const auto divisor =
        float(windows_.down.divisor[std::size_t(p)] * windows_.across.divisor[std::size_t(q)]);
    for (std::int64_t i = 0; i < count; ++i) sum[i] /= divisor;
    store_floats(sum, y, count);
  }

  Windows windows_;
};

class AverageBackward final : public PreparedKernel {
 public:
  explicit AverageBackward(Windows windows) : windows_(std::move(windows)) {}

  void run(const KernelArgs& args) const override {
    dispatch_float(args.out_type(0).dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      gather(args, windows_, args.in<T>(0), args.out<T>(0),
             [&](float* sum, const float* dy, std::int64_t, std::int64_t p, std::int64_t q,
                 std::int64_t, std::int64_t, std::int64_t count) {
               const auto divisor = float(windows_.down.divisor[std::size_t(p)] *
                                          windows_.across.divisor[std::size_t(q)]);
               for (std::int64_t i = 0; i < count; ++i) sum[i] += dy[i] / divisor;
             });
    });
  }

 private:
  Windows windows_;
};

KernelDef pool_kernel(const std::string& op,
                      std::function<std::unique_ptr<PreparedKernel>(const KernelQuery&)> make) {
  KernelDef def;
  def.op = op;
  def.name = "cpu." + op;
  def.refuse = [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out.first(1)});
  };
  def.prepare = [make = std::move(make)](const KernelQuery& query, int) { return make(query); };
  return def;
}

/// The average `op` and its gradient, of the windows that `windows` makes from the type of x.
std::vector<KernelRegistration> average_kernels(const std::string& op, MakeWindows windows) {
  std::vector<KernelRegistration> both;
  both.emplace_back(pool_kernel(op, [windows](const KernelQuery& query) {
    return std::make_unique<Average>(windows(query.attrs, query.in[0]));
  }));
  both.emplace_back(pool_kernel(op + "_backward", [windows](const KernelQuery& query) {
    return std::make_unique<AverageBackward>(windows(query.attrs, query.out[0]));
  }));
  return both;
}

const KernelRegistration kMaxpool{pool_kernel(
    "maxpool", [](const KernelQuery& query) { return std::make_unique<Maxpool>(query); })};
const KernelRegistration kMaxpoolBackward{
    pool_kernel("maxpool_backward",
                [](const KernelQuery& query) { return std::make_unique<MaxpoolBackward>(query); })};
const std::vector<KernelRegistration> kAverages[] = {
    average_kernels("avgpool", average_windows),
    average_kernels("adaptive_avgpool", adaptive_windows), average_kernels("gap", whole_windows)};

}  // namespace
}  // namespace tr::cpu
