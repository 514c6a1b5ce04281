// SPDX-License-Identifier: Apache-2.0
#include "matmul_peak.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "backend/cuda/fc_product.h"
#include "core/format.h"
#include "cuda_node.h"
#include "renaissance/tensor/tensor.h"

namespace tr::bench {
namespace {

// 784-4096-10: y and dW without dx, then all three.
constexpr std::array<std::int64_t, 3> kLayers = {784, 4096, 10};
static_assert(step_flops(3, kLayers) == 2.0 * 3 * (2 * 784 * 4096 + 3 * 4096 * 10));

constexpr std::int64_t kShapes[][3] = {
    {4096, 4096, 4096}, {8192, 8192, 8192}, {20480, 4096, 4096}, {16384, 8192, 4096}};
constexpr int kAlgorithms = 8;         // that are tried
constexpr int kTrials = 5;             // of each
constexpr double kBusySeconds = 0.12;  // of the fastest before it is measured, and measured

struct DeviceBytes {
  std::byte* data;
  explicit DeviceBytes(std::int64_t bytes) : data(allocate(bytes)) {}
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data); }
};

void fill(std::byte* to, std::int64_t bytes, DType dtype, Operands operands, std::uint64_t seed) {
  // Odd, so that no row of a matrix is like another near it.
  const Tensor block = operands == Operands::UNIFORM
                           ? Tensor::uniform({4'000'037}, -1, 1, seed, dtype)
                           : Tensor::full({4'000'037}, 1, dtype);
  const auto length = std::int64_t(block.num_bytes());
  for (std::int64_t at = 0; at < bytes; at += length) {
    TR_CUDA(cudaMemcpy(to + at, block.raw(), std::size_t(std::min(length, bytes - at)),
                       cudaMemcpyHostToDevice));
  }
}

class Products {
 public:
  Products(DType dtype, Operands operands)
      : dtype_(dtype),
        a_(largest([](auto& s) { return s[0] * s[2]; })),
        b_(largest([](auto& s) { return s[1] * s[2]; })),
        c_(largest([](auto& s) { return s[0] * s[1]; })),
        workspace_(kWorkspaceBytes) {
    args_.stream_ = stream_;
    fill(a_.data, largest([](auto& s) { return s[0] * s[2]; }), dtype, operands, 1);
    fill(b_.data, largest([](auto& s) { return s[1] * s[2]; }), dtype, operands, 2);
  }
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  ~Products() { cudaStreamDestroy(stream_); }

  Summary tflops(std::int64_t m, std::int64_t n, std::int64_t k) const {
    const cuda::ProductEngine& engine = cuda::cublaslt_engine();
    const cuda::ProductShape shape{
        .m = m, .n = n, .k = k, .transpose_b = true, .dtype = dtype_, .result = dtype_};
    TR_ASSERT(engine.workspace_bytes(shape) <= kWorkspaceBytes);
    std::unique_ptr<cuda::Product> fastest;
    double least = 0;
    for (const std::string& algorithm : engine.algorithms(shape, cuda::Fused::NONE, kAlgorithms)) {
      auto product = engine.make(shape, cuda::Fused::NONE, algorithm);
      if (product == nullptr) continue;
      const double seconds = summarize(samples(*product, kTrials)).median;
      if (fastest == nullptr || seconds < least) fastest = std::move(product), least = seconds;
    }
    if (fastest == nullptr)
      throw_as<DeviceError>("matmul_peak: cuBLASLt has no algorithm for {}x{}x{}", m, n, k);
    const int busy = std::max(kTrials, int(std::ceil(kBusySeconds / least)));
    samples(*fastest, busy);
    std::vector<double> rates = samples(*fastest, busy);
    for (double& s : rates) s = 2 * double(m) * double(n) * double(k) / s * 1e-12;
    return summarize(rates);
  }

 private:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

  template <typename Size>
  std::int64_t largest(Size size) const {
    std::int64_t most = 0;
    for (const auto& shape : kShapes) most = std::max(most, size(shape));
    return most * std::int64_t(size_of(dtype_));
  }
  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    TR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  std::vector<double> samples(const cuda::Product& product, int n) const {
    return timer_.samples(n, [&] {
      product.run(args_, {.a = a_.data, .b = b_.data, .c = c_.data, .workspace = workspace_.data});
    });
  }

  DType dtype_;
  DeviceBytes a_, b_, c_, workspace_;
  cudaStream_t stream_ = make_stream();
  Timer timer_{stream_};
  KernelArgs args_;
};

}  // namespace

MatmulPeak measure_matmul_peak(int device, DType dtype, Operands operands) {
  TR_CUDA(cudaSetDevice(device));
  const Products products(dtype, operands);
  MatmulPeak peak;
  for (const auto& [m, n, k] : kShapes) {
    const Summary tflops = products.tflops(m, n, k);
    if (tflops.median > peak.tflops.median) peak = {fmt::format("{}x{}x{}", m, n, k), tflops};
  }
  return peak;
}

}  // namespace tr::bench
