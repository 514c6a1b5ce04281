// SPDX-License-Identifier: Apache-2.0
#include "backend/engine_search.h"

#include <algorithm>
#include <chrono>

#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr {
namespace {

constexpr int kSamples = 3;  // of an engine that is not far behind; again of those that are close

double steady_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

/// The least time of its samples: what disturbs a measurement only adds.
struct EngineSearch::Timed {
  std::string engine;
  std::unique_ptr<TimedEngine> timed;
  double us = 0;

  void sample(int times) {
    for (int i = 0; i < times; ++i) {
      const double us_now = timed->sample_us();
      us = us == 0 ? us_now : std::min(us, us_now);
    }
  }
};

EngineSearch::EngineSearch(std::unique_ptr<EngineBench> bench, SearchOptions options)
    : bench_(std::move(bench)), options_(std::move(options)) {
  TR_ASSERT(bench_ != nullptr);
  if (!options_.now) options_.now = steady_seconds;
}

std::vector<Engine> EngineSearch::engines_of(const KernelQuery& query,
                                             const std::vector<const KernelDef*>& kernels) const {
  std::vector<Engine> engines;
  for (const KernelDef* kernel : kernels) {
    if (!kernel->configs) {
      engines.push_back({kernel, ""});
      continue;
    }
    for (std::string& config : kernel->configs(query))
      engines.push_back({kernel, std::move(config)});
  }
  return engines;
}

std::optional<EngineSearch::Found> EngineSearch::fastest(
    const std::string& node, const KernelQuery& query,
    const std::vector<const KernelDef*>& kernels) {
  if (options_.seconds <= 0) return std::nullopt;
  const double start = now(), deadline = start + options_.seconds - spent_seconds_;
  if (start >= deadline) {
    ++num_out_of_time_;
    return std::nullopt;
  }
  std::optional<Found> found;
  try {
    const std::vector<Engine> engines = engines_of(query, kernels);
    if (engines.size() == 1) return Found{engines[0].text()};
    bench_->begin(query);
    found = measure(node, query, engines, deadline);
  } catch (const Error& error) {
    log_warning("tuning: {} is not measured, its engine is chosen by rank: {}", node, error.what());
  }
  spent_seconds_ += now() - start;
  if (!found) return found;
  ++num_searched_;
  if (!found->complete) ++num_out_of_time_;
  return found;
}

std::optional<EngineSearch::Found> EngineSearch::measure(const std::string& node,
                                                         const KernelQuery& query,
                                                         const std::vector<Engine>& engines,
                                                         double deadline) {
  std::vector<Timed> all;
  double best = 0;
  bool complete = true;
  const KernelDef* hopeless = nullptr;
  for (const Engine& engine : engines) {
    if (engine.kernel == hopeless) continue;
    if (now() >= deadline) {
      complete = false;
      break;
    }
    try {
      Timed one{engine.text(), bench_->prepare(engine, query)};
      one.sample(1);
      const bool behind = best > 0 && one.us > kBehind * best;
      if (!behind) one.sample(kSamples - 1);
      if (best > 0 && one.us > kHopeless * best) hopeless = engine.kernel;
      log(LogLevel::DEBUG, "tuning: {}: {} takes {:.2f} us", node, one.engine, one.us);
      best = best == 0 ? one.us : std::min(best, one.us);
      if (!behind) all.push_back(std::move(one));
    } catch (const Error& error) {
      log(LogLevel::DEBUG, "tuning: {}: {} does not run: {}", node, engine.text(), error.what());
    }
  }
  if (all.empty()) return std::nullopt;
  const double close = kClose * best;
  std::erase_if(all, [&](const Timed& one) { return one.us > close; });
  // In turns, so that a change of the clock meets all of them.
  for (int i = 0; i < kSamples && all.size() > 1 && now() < deadline; ++i) {
    for (Timed& one : all) one.sample(1);
  }
  for (const Timed& one : all) best = std::min(best, one.us);
  const auto winner =
      std::find_if(all.begin(), all.end(), [&](const Timed& one) { return one.us <= kTie * best; });
  return Found{winner->engine, winner->us, complete};
}

}  // namespace tr
