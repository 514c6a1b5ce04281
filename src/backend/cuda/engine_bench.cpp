// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/engine_bench.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "backend/cuda/arena.h"
#include "backend/cuda/captured_graph.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/cudnn_info.h"
#include "backend/cuda/handles.h"
#include "core/check.h"
#include "core/format.h"
#include "device/single_communicator.h"
#include "renaissance/tensor/tensor.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kMostRotated = 64 << 20;  // bytes of all sets: more leaves the cache anyway
constexpr int kMostSets = 4;
constexpr std::int64_t kPatternElements = 1 << 16;
constexpr float kSampleUs = 200;  // a graph of launches takes about as long
constexpr int kMostLaunches = 20;
constexpr float kLongUs = 20'000;
constexpr std::int64_t kProbes = 128, kProbeElements = 32;  // of each output
constexpr int kUnwritten = 0xff;                            // a NaN in every floating dtype

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Device memory that grows; what was given out stays until clear().
class Scratch {
 public:
  std::byte* at_least(std::int64_t bytes) {
    if (blocks_.empty() || blocks_.back()->num_bytes() < bytes) {
      blocks_.push_back(make_device_arena(bytes));
    }
    return blocks_.back()->base();
  }
  /// Keeps the largest alone: the next node is likely to fit.
  void clear() {
    if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), std::prev(blocks_.end()));
  }

 private:
  std::list<std::unique_ptr<Arena>> blocks_;
};

/// The arguments of a node's launches, one set of operands each.
struct Operands {
  KernelArgs args;
  std::vector<void*> pointers;  // inputs, outputs, workspace
};

class CudaTimedEngine final : public TimedEngine {
 public:
  CudaTimedEngine(const Engine& engine, std::unique_ptr<PreparedKernel> prepared,
                  std::vector<Operands> sets, cudaStream_t stream)
      : kernel_(engine.kernel),
        prepared_(std::move(prepared)),
        sets_(std::move(sets)),
        stream_(stream) {
    for (Operands& set : sets_) set.args.pointers_ = set.pointers.data();
    TR_CUDA(cudaEventRecord(begin_.handle, stream_));
    launch(0);  // loads what the kernel needs
    first_us_ = end_sample();
  }

  /// Makes it ready for sample_us(). Where a launch takes long, loading is nothing beside it, and
  /// the first launch was the first sample.
  void warm_up() {
    if (first_us_ > kLongUs) return;
    TR_CUDA(cudaEventRecord(begin_.handle, stream_));
    launch(1);
    first_us_ = end_sample();
    num_launches_ = std::clamp(int(kSampleUs / std::max(first_us_, 1.0f)), 1, kMostLaunches);
    if (num_launches_ == 1) return;
    first_us_ = 0;
    GraphCapture graph(stream_);
    GraphCapture::Tail tail;
    for (int i = 0; i < num_launches_; ++i) tail = graph.add(tail, [&] { launch(i); });
    exec_ = GraphExec(graph.instantiate());
    TR_CUDA(cudaGraphLaunch(exec_.handle, stream_));
  }

  double sample_us() override {
    if (first_us_ > 0) return std::exchange(first_us_, 0.0f);
    TR_CUDA(cudaEventRecord(begin_.handle, stream_));
    if (exec_.handle != nullptr) {
      TR_CUDA(cudaGraphLaunch(exec_.handle, stream_));
    } else {
      launch(0);
    }
    return double(end_sample()) / num_launches_;
  }

 private:
  void launch(int i) {
    const KernelArgs& args = sets_[std::size_t(i) % sets_.size()].args;
    prepared_ ? prepared_->run(args) : kernel_->launch(args);
  }
  float end_sample() {
    TR_CUDA(cudaEventRecord(end_.handle, stream_));
    TR_CUDA(cudaEventSynchronize(end_.handle));
    float ms = 0;
    TR_CUDA(cudaEventElapsedTime(&ms, begin_.handle, end_.handle));
    return ms * 1000;
  }

  const KernelDef* kernel_;
  std::unique_ptr<PreparedKernel> prepared_;
  std::vector<Operands> sets_;
  cudaStream_t stream_;
  Event begin_, end_;
  GraphExec exec_;
  int num_launches_ = 1;
  float first_us_ = 0;
};

class CudaEngineBench final : public EngineBench {
 public:
  explicit CudaEngineBench(int index) : index_(index) {
    TR_CUDA(cudaSetDevice(index_));
    stream_ = std::make_unique<Stream>();
  }

  void begin(const KernelQuery& query) override {
    TR_CUDA(cudaSetDevice(index_));
    operands_.clear();
    workspace_.clear();
    first_probes_.clear();
    num_bytes_ = 0;
    for (const TensorType& type : query.in) num_bytes_ += aligned(bytes_of(type));
    for (const TensorType& type : query.out) num_bytes_ += aligned(bytes_of(type));
    const std::int64_t fitting = kMostRotated / std::max<std::int64_t>(num_bytes_, 1);
    num_sets_ = int(std::clamp<std::int64_t>(fitting, 1, kMostSets));
    base_ = operands_.at_least(num_bytes_ * num_sets_);
    std::byte* at = base_;
    for (int set = 0; set < num_sets_; ++set) {
      for (const TensorType& type : query.in) at = fill(at, type);
      for (const TensorType& type : query.out) at += aligned(bytes_of(type));
    }
    TR_CUDA(cudaStreamSynchronize(stream_->handle));
  }

  std::unique_ptr<TimedEngine> prepare(const Engine& engine, const KernelQuery& query) override {
    TR_CUDA(cudaSetDevice(index_));
    const KernelQuery configured{query.attrs, query.in, query.out, engine.config};
    const KernelDef& kernel = *engine.kernel;
    const std::int64_t bytes = kernel.workspace_bytes ? kernel.workspace_bytes(configured) : 0;
    std::byte* workspace = bytes > 0 ? workspace_.at_least(bytes) : nullptr;
    std::vector<Operands> sets;
    for (int i = 0; i < num_sets_; ++i) {
      sets.push_back(operands_of(query, base_ + i * num_bytes_, workspace, bytes));
    }
    auto prepared = kernel.prepare ? kernel.prepare(configured, 1) : nullptr;
    poison_outputs(query);
    auto timed = std::make_unique<CudaTimedEngine>(engine, std::move(prepared), std::move(sets),
                                                   stream_->handle);
    check_outputs(query);
    timed->warm_up();
    return timed;
  }

 private:
  /// Where the first set's outputs lie.
  template <typename F>
  void for_outputs(const KernelQuery& query, F&& f) const {
    std::byte* at = base_;
    for (const TensorType& type : query.in) at += aligned(bytes_of(type));
    for (const TensorType& type : query.out) {
      f(type, at);
      at += aligned(bytes_of(type));
    }
  }
  void poison_outputs(const KernelQuery& query) {
    for_outputs(query, [&](const TensorType& type, std::byte* at) {
      TR_CUDA(cudaMemsetAsync(at, kUnwritten, std::size_t(bytes_of(type)), stream_->handle));
    });
  }

  /// Some runs of neighbours of each output against those of the node's first engine: a library may
  /// report success and leave its result unwritten, or mean something else by an epilogue.
  /// @throws DeviceError  they differ by more than rounding.
  void check_outputs(const KernelQuery& query) {
    std::vector<Tensor> probes;
    for_outputs(query, [&](const TensorType& type, std::byte* at) {
      if (!is_floating(type.dtype)) return;
      const std::int64_t count = type.shape.num_elements();
      const std::int64_t width = std::min(count, kProbeElements);
      const std::int64_t runs = width == 0 ? 0 : std::min(count / width, kProbes);
      Tensor probe({runs, width}, type.dtype);
      if (runs > 0) {
        const std::size_t size = size_of(type.dtype), bytes = std::size_t(width) * size;
        TR_CUDA(cudaMemcpy2DAsync(probe.raw(), bytes, at, std::size_t(count / runs) * size, bytes,
                                  std::size_t(runs), cudaMemcpyDeviceToHost, stream_->handle));
        TR_CUDA(cudaStreamSynchronize(stream_->handle));
      }
      probes.push_back(std::move(probe));
    });
    for (const Tensor& probe : probes) check_written(probe);
    if (first_probes_.empty()) {
      first_probes_ = std::move(probes);
      return;
    }
    for (std::size_t i = 0; i < probes.size(); ++i) check_probe(probes[i], first_probes_[i]);
  }
  static void check_written(const Tensor& probe) {
    const std::size_t size = size_of(probe.dtype());
    const auto* bytes = static_cast<const unsigned char*>(probe.raw());
    for (std::size_t i = 0; i < probe.num_bytes(); i += size) {
      const bool written = std::any_of(bytes + i, bytes + i + size,
                                       [](unsigned char byte) { return byte != kUnwritten; });
      if (!written) throw_as<DeviceError>("it leaves values of its result unwritten");
    }
  }
  static void check_probe(const Tensor& got, const Tensor& want) {
    double largest = 0;
    for (std::int64_t i = 0; i < want.num_elements(); ++i)
      largest = std::max(largest, std::abs(want.at(i)));
    // Orders of summation differ, and roundings of 16-bit values: far less than a wrong value does.
    const double allowed = largest / 32;
    for (std::int64_t i = 0; i < want.num_elements(); ++i) {
      const double a = got.at(i), b = want.at(i);
      if (std::abs(a - b) <= allowed || (!std::isfinite(a) && !std::isfinite(b))) continue;
      throw_as<DeviceError>("its result is {} where the first engine's is {}", a, b);
    }
  }

  /// Fills an operand with its dtype's pattern: once from the host, then by doubling.
  std::byte* fill(std::byte* to, const TensorType& type) {
    const std::int64_t bytes = bytes_of(type);
    if (bytes == 0) return to;
    Tensor& pattern = patterns_[type.dtype];
    // What the values are decides how much power a product draws.
    if (pattern.empty()) {
      const bool bits = type.dtype == DType::UINT8;  // masks
      pattern = Tensor::uniform({kPatternElements}, bits ? 0 : -1, bits ? 256 : 1, 1, type.dtype);
    }
    std::int64_t filled = std::min<std::int64_t>(bytes, std::int64_t(pattern.num_bytes()));
    TR_CUDA(cudaMemcpyAsync(to, pattern.raw(), std::size_t(filled), cudaMemcpyHostToDevice,
                            stream_->handle));
    while (filled < bytes) {
      const std::int64_t more = std::min(filled, bytes - filled);
      TR_CUDA(cudaMemcpyAsync(to + filled, to, std::size_t(more), cudaMemcpyDeviceToDevice,
                              stream_->handle));
      filled += more;
    }
    return to + aligned(bytes);
  }

  Operands operands_of(const KernelQuery& query, std::byte* at, std::byte* workspace,
                       std::int64_t workspace_bytes) {
    Operands operands;
    KernelArgs& args = operands.args;
    args.attrs_ = &query.attrs;
    args.in_types_.assign(query.in.begin(), query.in.end());
    args.out_types_.assign(query.out.begin(), query.out.end());
    const auto place = [&](const TensorType& type, bool optional) -> std::int32_t {
      std::byte* here = at;
      at += aligned(bytes_of(type));
      if (optional && type.shape.rank() == 0) return -1;  // a missing input
      operands.pointers.push_back(here);
      return std::int32_t(operands.pointers.size() - 1);
    };
    for (const TensorType& type : query.in) args.in_slots_.push_back(place(type, true));
    for (const TensorType& type : query.out) args.out_slots_.push_back(place(type, false));
    if (workspace != nullptr) {
      operands.pointers.push_back(workspace);
      args.workspace_slot_ = std::int32_t(operands.pointers.size() - 1);
      args.workspace_bytes_ = workspace_bytes;
    }
    args.stream_ = stream_->handle;
    args.communicator_ = &solo_;
    return operands;
  }

  int index_;
  std::unique_ptr<Stream> stream_;
  SingleCommunicator solo_;
  Scratch operands_, workspace_;
  std::map<DType, Tensor> patterns_;
  std::vector<Tensor> first_probes_;  // by output
  std::byte* base_ = nullptr;
  std::int64_t num_bytes_ = 0;  // of one set
  int num_sets_ = 1;
};

}  // namespace

std::unique_ptr<EngineBench> make_engine_bench(int index) {
  return std::make_unique<CudaEngineBench>(index);
}

std::string tuning_environment(int index) {
  cudaDeviceProp properties{};
  TR_CUDA(cudaGetDeviceProperties(&properties, index));
  int driver = 0;
  TR_CUDA(cudaDriverGetVersion(&driver));
  return fmt::format(
      "{}, {} multiprocessors, sm_{}{}, driver {}, CUDA {}, cuBLASLt {}, cuDNN {}, kernels {}",
      properties.name, properties.multiProcessorCount, properties.major, properties.minor, driver,
      CUDART_VERSION, cublaslt_info().version, cudnn_info().version, kernel_sources_hash());
}

}  // namespace tr::cuda
