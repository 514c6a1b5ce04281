// SPDX-License-Identifier: Apache-2.0
#include "task/memory_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backend/device_backend.h"
#include "core/check.h"
#include "core/format.h"
#include "core/host_memory.h"
#include "core/human.h"
#include "graph/plan_report.h"

namespace tr {

namespace {

constexpr std::int64_t kReserveBytes = 64 << 20;  // of a GPU, for code and captured graphs
constexpr std::size_t kMostLines = 10;

struct Line {
  std::int64_t bytes;
  std::string text;
};

/// The largest of what every step keeps, region by region, and of the tensors live at the peak.
std::vector<Line> largest(const CompiledRun& run, const PlanReport& report) {
  std::vector<Line> lines;
  for (const Region& region : run.compiled.memory.regions) {
    if (!is_persistent(region.role)) continue;
    lines.push_back({region.bytes, fmt::format("{} {}, kept by every step", name_of(region.dtype),
                                               name_of(region.role))});
  }
  for (const LargestTensor& tensor : report.largest) {
    lines.push_back({tensor.bytes, fmt::format("{} {}, live {}..{}", tensor.type, tensor.name,
                                               tensor.first_use, tensor.last_use)});
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  if (lines.size() > kMostLines) lines.resize(kMostLines);
  return lines;
}

/// Three digits may hide by how little something is too large.
std::string exact(std::int64_t bytes) { return fmt::format("{} ({})", format_bytes(bytes), bytes); }

}  // namespace

MemoryBudget memory_budget(const Config& config, const ResolvedDevice& device) {
  MemoryBudget budget{std::numeric_limits<std::int64_t>::max(), ""};
  if (!device.gpus.empty()) {
    const DeviceBackend* backend = find_backend(device.kind);
    if (backend != nullptr && backend->free_memory) {
      const std::int64_t free = backend->free_memory(device.gpus.front());
      budget.bytes = std::max<std::int64_t>(0, free - kReserveBytes);
      budget.reason = fmt::format("{} are free on GPU {}, {} of them kept for code and graphs",
                                  exact(free), device.gpus.front(), format_bytes(kReserveBytes));
    }
  }
  if (device.kind == DeviceKind::CPU) {
    budget.bytes = host_memory_bytes();
    budget.reason = fmt::format("this machine has {}", exact(budget.bytes));
  }
  const std::int64_t limit = config.train.memory_limit;
  // Above the memory too, on the CPU: there may be a place to swap to.
  if (limit > 0 && (limit < budget.bytes || device.kind == DeviceKind::CPU)) {
    budget.bytes = limit;
    budget.reason = fmt::format("memory_limit allows {}", exact(limit));
  }
  return budget;
}

std::int64_t arena_bytes(const CompiledRun& run) {
  return run.compiled.memory.peak_bytes() * run.batches.world_size;
}

int fitting_cut(const BatchPlan& batches, std::int64_t bytes, const PeakOfBatches& peak_of) {
  const std::vector<int> parts = possible_cuts(batches);
  const auto peak = [&](int n) -> std::optional<std::int64_t> {
    try {
      return peak_of(cut(batches, n));
    } catch (const InvalidArgument&) {  // batch norm does not take one sample
      return std::nullopt;
    }
  };
  const auto first = std::partition_point(parts.begin(), parts.end(), [&](int n) {
    return peak(n).value_or(0) > bytes / batches.world_size;
  });
  const auto taken = std::find_if(first, parts.end(), [&](int n) { return peak(n).has_value(); });
  return taken == parts.end() ? 0 : *taken;
}

PeakOfBatches scaled_peaks(const BatchPlan& batches, std::int64_t peak_bytes,
                           const PeakOfBatches& peak_of) {
  const std::int64_t more = std::max<std::int64_t>(0, peak_bytes - peak_of(batches));
  const std::int64_t local = batches.local;
  return [=](const BatchPlan& other) {
    return peak_of(other) +
           std::int64_t(std::ceil(double(more) * double(other.local) / double(local)));
  };
}

void check_memory(const CompiledRun& run, const MemoryBudget& budget, std::int64_t data_bytes,
                  const PeakOfBatches& planned_peak_of) {
  const std::int64_t needed = arena_bytes(run) + data_bytes;
  if (needed <= budget.bytes) return;
  const PlanReport report =
      report_plan(run.compiled.lowered, run.compiled.arch, run.compiled.memory);
  std::string message = fmt::format(
      "compile: the run needs {} of memory (arena {}, data {}), {}. Largest at the peak (step {} "
      "of {}, \"{}\"):",
      exact(needed), format_bytes(arena_bytes(run)), format_bytes(data_bytes), budget.reason,
      report.step, report.num_steps, report.step_name);
  for (const Line& line : largest(run, report))
    message += fmt::format("\n  {:>10}  {}", format_bytes(line.bytes), line.text);
  const std::int64_t left = budget.bytes - data_bytes;
  const PeakOfBatches peak_of =
      scaled_peaks(run.batches, run.compiled.memory.peak_bytes(), planned_peak_of);
  const auto peak_of_batch = [&](std::int64_t batch) {
    BatchPlan other = run.batches;
    other.local = batch;
    other.global = batch * other.world_size * other.accumulate_steps;
    return peak_of(other);
  };
  const std::int64_t batch =
      largest_batch(left / run.batches.world_size, peak_of_batch, run.batches.local);
  message += batch > 0 ? fmt::format("\n  local_batch_size {} would fit, this is {}", batch,
                                     run.batches.local)
                       : std::string("\n  not even a batch of one sample would fit");
  if (const int parts = fitting_cut(run.batches, left, peak_of); parts > 1) {
    const BatchPlan other = cut(run.batches, parts);
    message += fmt::format(
        "; accumulate_steps {} with micro-batches of {} would, for the same global batch of {} "
        "(accumulate_steps=auto takes it)",
        other.accumulate_steps, other.local, other.global);
  }
  throw_as<OutOfMemory>("{}", message);
}

}  // namespace tr
