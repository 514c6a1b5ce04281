// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "backend/tuning_table.h"

namespace tr {

/// An engine made ready on a device with operands of its own.
class TimedEngine {
 public:
  virtual ~TimedEngine() = default;
  /// Microseconds of one launch that follows others, as in a step. @throws Error  it failed.
  virtual double sample_us() = 0;
};

/// Where engines are timed: a device, or a test's stand-in.
class EngineBench {
 public:
  virtual ~EngineBench() = default;
  /// Makes operands for the nodes of `query`, until the next call. @throws Error  there is no room.
  virtual void begin(const KernelQuery& query) = 0;
  /// @throws Error  the device does not run this engine; the search goes on without it.
  virtual std::unique_ptr<TimedEngine> prepare(const Engine& engine, const KernelQuery& query) = 0;
};

struct SearchOptions {
  double seconds = 10;          // for all nodes together; 0: nothing is measured
  std::function<double()> now;  // seconds; empty: the steady clock
};

/// Finds the fastest engine of a node by measurement, within a budget for all nodes of a compile.
/// Of engines within kTie of the fastest the first in rank is taken, so that runs agree.
class EngineSearch {
 public:
  static constexpr double kTie = 1.03;
  static constexpr double kClose = 1.10;   // measured again before the choice
  static constexpr double kBehind = 1.50;  // not measured again
  static constexpr double kHopeless = 10;  // nor are the kernel's other configs

  struct Found {
    std::string engine;
    double us = 0;
    bool complete = true;  // false: the time ended before every engine had its turn
  };

  EngineSearch(std::unique_ptr<EngineBench> bench, SearchOptions options);

  /// `kernels`, in rank, take the query. Nothing if there is no choice, no time, or no room; with
  /// one engine left by the device, that one.
  std::optional<Found> fastest(const std::string& node, const KernelQuery& query,
                               const std::vector<const KernelDef*>& kernels);

  /// Choices of former runs and, once measured whole, of this one.
  TuningTable& cache() { return cache_; }
  int num_searched() const { return num_searched_; }  // nodes that were measured
  int num_out_of_time() const { return num_out_of_time_; }
  double spent_seconds() const { return spent_seconds_; }

 private:
  struct Timed;
  double now() const { return options_.now(); }
  std::vector<Engine> engines_of(const KernelQuery& query,
                                 const std::vector<const KernelDef*>& kernels) const;
  std::optional<Found> measure(const std::string& node, const KernelQuery& query,
                               const std::vector<Engine>& engines, double deadline);

  std::unique_ptr<EngineBench> bench_;
  SearchOptions options_;
  TuningTable cache_;
  double spent_seconds_ = 0;
  int num_searched_ = 0, num_out_of_time_ = 0;
};

}  // namespace tr
