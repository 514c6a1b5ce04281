// SPDX-License-Identifier: Apache-2.0
#pragma once

// One convolution as cuDNN runs it: the graph of operations, the engines that cuDNN's heuristics
// offer for it, the plan of the one that was taken.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cudnn_api.h"
#include "ops/conv_geometry.h"

namespace tr::cuda {

enum class ConvDirection : std::uint8_t { FORWARD, DATA, WEIGHT };

/// What a plan is made for. x, weight and y have one dtype; sums are fp32.
struct ConvProblem {
  ConvDirection direction = ConvDirection::FORWARD;
  ConvGeometry geometry{};
  DType dtype = DType::FP32;
  /// FORWARD only: the sums of y and of its squares over all pixels, one a channel, in fp32, are
  /// results too.
  bool statistics = false;
  /// fp32 operands may be cut to TF32.
  bool tf32 = false;

  /// "conv fp16 x[256, 56, 56, 64] w[64, 3, 3, 64] stride 1, 1 ...": one text, one plan.
  std::string text() const;
};

/// Addresses of a launch. `result` is the one that the direction computes.
struct ConvOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* y = nullptr;
  float* sum = nullptr;
  float* sum_of_squares = nullptr;
  void* workspace = nullptr;
};

/// An engine with its settings, made ready.
class ConvPlan {
 public:
  ConvPlan(CudnnDescriptor plan, std::string engine, std::int64_t workspace_bytes)
      : plan_(std::move(plan)), engine_(std::move(engine)), workspace_bytes_(workspace_bytes) {}

  /// "eng62_k2=4_k13=0": cuDNN's number of the engine and its settings.
  const std::string& engine() const { return engine_; }
  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Only enqueues, by the current device's handle.
  void run(cudaStream_t stream, const ConvProblem& problem, const ConvOperands& operands) const;

 private:
  CudnnDescriptor plan_;
  std::string engine_;
  std::int64_t workspace_bytes_;
};

/// Where plans are made for: a device, or the properties of one that is not here (cuDNN's JSON).
struct ConvTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

/// Engines for one problem, in the order of cuDNN's heuristics, without those that are not allowed:
/// engines that do not repeat their bytes or add partial sums in 16 bits; for fp32 operands without
/// the licence of TF32 those that cut them.
class ConvCandidates {
 public:
  /// @throws Unsupported  cuDNN has no engine for the graph; gives its words.
  ConvCandidates(const ConvProblem& problem, const ConvTarget& target);

  int size() const { return int(engines_.size()); }
  const std::string& name(int i) const { return engines_[std::size_t(i)].name; }
  /// Number of the engine with that name, -1 if there is none.
  int find(std::string_view name) const;
  /// False of engines that are built by compiling code, and of cuDNN's oldest: they are what is
  /// left where nothing else takes a problem, seldom fast, and slow to try.
  bool is_worth_measuring(int i) const { return engines_[std::size_t(i)].worth_measuring; }
  /// Null if the engine refuses or wants more than `workspace_limit` bytes; `why` then says so.
  std::unique_ptr<ConvPlan> build(int i, std::int64_t workspace_limit, std::string& why) const;

 private:
  struct Engine {
    CudnnDescriptor config;
    std::string name;
    bool worth_measuring;
  };
  void add_engines(cudnnBackendHeurMode_t mode);

  ConvProblem problem_;
  ConvTarget target_;
  std::vector<CudnnDescriptor> parts_;  // what the graph refers to
  CudnnDescriptor graph_;
  std::vector<Engine> engines_;
};

/// The plan of `engine` for a problem on the current device, made once and kept; no name: of the
/// first candidate that builds. Null if there is none; `why` then says so.
/// @throws Unsupported  cuDNN is missing.
std::shared_ptr<const ConvPlan> conv_plan(const ConvProblem& problem, std::string_view engine,
                                          std::string& why);

/// Engines that a measurement may tell apart, the most promising first.
std::vector<std::string> conv_engines(const ConvProblem& problem);

}  // namespace tr::cuda
