// SPDX-License-Identifier: Apache-2.0
// Gradients of gather and embedding: sums of all that was read from one place, in the order of the
// reads, by run_sums.cuh.
#include "backend/cuda/lookup.cuh"
#include "backend/cuda/run_sums.cuh"

namespace tr::cuda {
namespace {

struct MapZero {
  void* x;
  DType dtype;

  template <int N>
  __device__ void run(std::int64_t i) const {
    put(x, dtype, i, 0);
  }
};

void fill_zeros(const KernelArgs& args) {
  launch_map<1>(args, args.out_type(0).shape.num_elements(), true,
                MapZero{args.out<void>(0), args.out_type(0).dtype});
}

// gather

/// Reads of a line up to which an element of dx looks through all of them: shorter than a sort.
constexpr std::int64_t kScanned = 32;

/// Places of a sort have 32 bits.
bool is_scanned(const GatherShape& s) {
  return s.count <= kScanned || s.outer * s.count * s.inner > INT32_MAX;
}

/// An element of dx looks for its number among all of its line: no two threads write one place.
struct MapGatherBackward {
  const void* dy;
  void* dx;
  DType dtype;
  Numbers index;
  GatherShape s;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t o = i / (s.length * s.inner), k = i / s.inner % s.length, j = i % s.inner;
    float sum = 0;
    for (std::int64_t c = 0; c < s.count; ++c) {
      const std::int64_t at = (o * s.count + c) * s.inner + j;
      if (index[at] == k) sum += get(dy, dtype, at);
    }
    put(dx, dtype, i, sum);
  }
};

/// The element of dx that an element of dy belongs to; their number if it has none.
struct GatheredFrom {
  Numbers index;
  GatherShape s;

  __device__ std::int64_t operator()(std::int64_t place) const {
    const std::int64_t k = index[place];
    if (k < 0 || k >= s.length) return s.outer * s.length * s.inner;
    const auto at = std::uint32_t(place), line = std::uint32_t(s.count * s.inner);
    return (at / line * s.length + k) * s.inner + at % std::uint32_t(s.inner);
  }
};

struct GatherTerms {
  static constexpr int kLanes = 1, kWidth = 1;
  GatheredFrom number;
  const void* dy;
  void* dx;
  DType dtype;
  std::int64_t end, columns = 1;

  __device__ Vector<float, 1> term(std::int64_t place, std::int64_t) const {
    return {get(dy, dtype, place)};
  }
  __device__ void write(std::int64_t at, std::int64_t, const Vector<float, 1>& sum) const {
    put(dx, dtype, at, sum.v[0]);
  }
};

runs::Sums gather_sums(const GatherShape& s) {
  return {s.outer * s.count * s.inner, 1, s.outer * s.length * s.inner};
}

void launch_gather_backward(const KernelArgs& args) {
  const GatherShape s(args.attrs(), args.out_type(0).shape, args.in_type(1).shape);
  const Numbers index(args, 1);
  const std::int64_t elements = args.out_type(0).shape.num_elements();
  const void* dy = args.in<void>(0);
  void* dx = args.out<void>(0);
  const DType dtype = args.out_type(0).dtype;
  if (is_scanned(s)) {
    launch_map<1>(args, elements, true, MapGatherBackward{dy, dx, dtype, index, s});
    return;
  }
  fill_zeros(args);
  if (elements == 0 || args.in_type(1).shape.num_elements() == 0) return;
  gather_sums(s).run(args, GatherTerms{{index, s}, dy, dx, dtype, elements});
}

KernelDef gather_backward_kernel() {
  KernelDef def = simple_kernel("gather_backward", launch_gather_backward);
  def.workspace_bytes = [](const KernelQuery& query) -> std::int64_t {
    const GatherShape s(query.attrs, query.out[0].shape, query.in[1].shape);
    return is_scanned(s) ? 0 : gather_sums(s).workspace_bytes();
  };
  return def;
}

// embedding

/// The row of the table that a token reads; the number of rows if that has no gradient.
struct RowRead {
  Numbers ids;
  std::int64_t rows, padding;

  __device__ std::int64_t operator()(std::int64_t place) const {
    const std::int64_t id = ids[place];
    return id < 0 || id >= rows || id == padding ? rows : id;
  }
};

template <typename T, int kColumns>
struct TableTerms {
  static constexpr int kLanes = runs::kWarp, kWidth = kColumns;
  RowRead number;
  const T* dy;
  float* dweight;
  std::int64_t end, columns;

  __device__ Vector<float, kColumns> term(std::int64_t place, std::int64_t column) const {
    const Vector<T, kColumns> from = load<kColumns>(dy + place * columns + column);
    Vector<float, kColumns> wide;
#pragma unroll
    for (int k = 0; k < kColumns; ++k) wide.v[k] = to_float(from.v[k]);
    return wide;
  }
  __device__ void write(std::int64_t row, std::int64_t column,
                        const Vector<float, kColumns>& sum) const {
    store(dweight + row * columns + column, sum);
  }
};

void launch_embedding_dweight(const KernelArgs& args) {
  const Shape& weight = args.out_type(0).shape;
  const std::int64_t rows = weight[0], features = weight[1];
  const std::int64_t count = args.in_type(1).shape.num_elements();
  fill_zeros(args);
  if (count == 0 || weight.num_elements() == 0) return;
  const RowRead number{Numbers(args, 1), rows, args.attrs().i64("padding_idx")};
  const runs::Sums sums(count, features, rows);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    auto* dweight = args.out<float>(0);
    if (features % 4 == 0 && aligned_to(kVectorBytes, dy, dweight)) {
      sums.run(args, TableTerms<T, 4>{number, dy, dweight, rows, features});
    } else {
      sums.run(args, TableTerms<T, 1>{number, dy, dweight, rows, features});
    }
  });
}

KernelDef dweight_kernel() {
  KernelDef def = simple_kernel(
      "embedding_dweight", launch_embedding_dweight, [](const KernelQuery& query) -> std::string {
        const std::int64_t count = query.in[1].shape.num_elements();
        if (count <= INT32_MAX) return "";
        return "there are " + std::to_string(count) + " ids, expected less than 2^31";
      });
  def.workspace_bytes = [](const KernelQuery& query) {
    const Shape& weight = query.out[0].shape;
    return runs::Sums(query.in[1].shape.num_elements(), weight[1], weight[0]).workspace_bytes();
  };
  return def;
}

const KernelRegistration kGatherBackward{gather_backward_kernel()};
const KernelRegistration kDweight{dweight_kernel()};

}  // namespace
}  // namespace tr::cuda
