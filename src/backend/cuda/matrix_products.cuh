// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of fp32 matrices of any shapes in one launch, by a table in device memory; those of
// matrices that stand still in a step end at once.

#include "backend/cuda/fp32_tile.cuh"
#include "backend/cuda/preconditioner.cuh"

namespace tr::cuda::optimizer {

/// Where a matrix of floats lies.
struct Place {
  std::int64_t offset = 0;
  std::int64_t ld = 0;
  bool in_state = false;
};
struct Homes {
  float *workspace, *state;

  __device__ float* at(const Place& place) const {
    return (place.in_state ? state : workspace) + place.offset;
  }
  __device__ Operand<float> operand(const Place& place) const { return {at(place), place.ld}; }
};

/// C = op(A) op(B), or the running covariance C = beta C + weight op(A) op(B), which is symmetric:
/// its tiles below the diagonal are written twice.
struct ProductJob {
  Place a, b, c;
  std::int32_t m, n, k;
  bool transpose_a, transpose_b, covariance;
  std::int32_t matrix, needs;  // flags that the matrix must have
  std::int64_t first_tile;
};

using ProductShape64 = fp32::Shape<2, 2>;

/// Tile `i` of a symmetric matrix: row by row, those up to the diagonal.
struct TriangleTile {
  int row, column;

  __device__ explicit TriangleTile(int i)
      : row(int((sqrtf(8.0f * float(i) + 1.0f) - 1.0f) * 0.5f)), column(0) {
    while (row * (row + 1) / 2 > i) --row;
    while ((row + 1) * (row + 2) / 2 <= i) ++row;
    column = i - row * (row + 1) / 2;
  }
};

static __global__ __launch_bounds__(ProductShape64::kThreads) void products_kernel(
    const ProductJob* jobs, int count, const MatrixStep* steps, Homes homes, float beta) {
  extern __shared__ __align__(16) float product_stages[];
  constexpr int kSide = ProductShape64::kM;
  const int j = entry_of(jobs, count, &ProductJob::first_tile, blockIdx.x);
  const ProductJob& job = jobs[j];
  if ((steps[job.matrix].flags & job.needs) != job.needs) return;
  const int tile = int(blockIdx.x - job.first_tile);
  const fp32::Product product{homes.operand(job.a), homes.operand(job.b), job.m, job.n, job.k,
                              job.transpose_a,      job.transpose_b};
  float* c = homes.at(job.c);
  const std::int64_t ld = job.c.ld;
  if (job.covariance) {
    const TriangleTile at(tile);
    const float weight = beta < 1.0f ? 1.0f - beta : 1.0f;
    const bool mirrored = at.row != at.column;
    fp32::run_tile<ProductShape64>(product_stages, product, at.row * kSide, at.column * kSide,
                                   [&](int row, int column, float sum) {
                                     float& own = c[row * ld + column];
                                     own = beta * own + weight * sum;
                                     if (mirrored) c[column * ld + row] = own;
                                   });
    return;
  }
  const int across = (job.n + kSide - 1) / kSide;
  fp32::run_tile<ProductShape64>(
      product_stages, product, tile / across * kSide, tile % across * kSide,
      [&](int row, int column, float sum) { c[row * ld + column] = sum; });
}

/// Products that one launch makes, of whatever shapes.
struct ProductList {
  std::vector<ProductJob> jobs;
  std::int64_t num_tiles = 0;

  void add(ProductJob job) {
    constexpr std::int64_t kSide = ProductShape64::kM;
    const std::int64_t down = ceil_div<std::int64_t>(job.m, kSide);
    job.first_tile = num_tiles;
    num_tiles +=
        job.covariance ? down * (down + 1) / 2 : down * ceil_div<std::int64_t>(job.n, kSide);
    jobs.push_back(job);
  }
};

class ProductLaunch {
 public:
  explicit ProductLaunch(const ProductList& list) : jobs_(list.jobs) {
    shape_.grid.x = unsigned(list.num_tiles);
    shape_.block.x = ProductShape64::kThreads;
    shape_.shared_bytes = fp32::kSharedBytes<ProductShape64>;
    TR_CUDA(cudaFuncSetAttribute(products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 int(shape_.shared_bytes)));
  }
  void run(const KernelArgs& args, const MatrixStep* steps, const Homes& homes, float beta) const {
    if (jobs_.count() == 0) return;
    launch(args, shape_, products_kernel, jobs_.data(), jobs_.count(), steps, homes, beta);
  }

 private:
  DeviceTable<ProductJob> jobs_;
  LaunchShape shape_;
};

}  // namespace tr::cuda::optimizer
