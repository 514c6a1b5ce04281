// SPDX-License-Identifier: Apache-2.0
#pragma once

// cuDNN's engines for the graph of a convolution, and the names that tuning tables hold:
// "eng62_k2=4_k13=0" is cuDNN's number of the engine with its settings.

#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/conv_graph.h"

namespace tr::cuda {

/// An engine with its settings, not yet a plan.
struct ConvEngine {
  CudnnDescriptor config;
  std::string name;
  /// False of engines that are built by compiling code, and of cuDNN's oldest: they are what is
  /// left where nothing else takes a problem, seldom fast, and slow to try.
  bool worth_measuring = true;
  std::vector<CudnnDescriptor> parts = {};  // what the config refers to
};

/// In the order of cuDNN's heuristics, without those that are not allowed: engines that do not
/// repeat their bytes or add partial sums in 16 bits; for fp32 operands without the licence of TF32
/// those that cut them. The heuristics take 10 to 20 ms a problem.
std::vector<ConvEngine> offered_engines(const ConvGraph& graph);

/// The engine of a name, without the heuristics. @throws DeviceError  no engine of cuDNN has that
/// name, it does not take the graph, or it is not allowed.
ConvEngine named_engine(const ConvGraph& graph, std::string_view name);

}  // namespace tr::cuda
