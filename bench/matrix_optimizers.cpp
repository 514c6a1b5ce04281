// SPDX-License-Identifier: Apache-2.0
// Steps of Muon, Shampoo and SOAP on one weight on the CPU, against PyTorch in the same run.
#include <CLI/CLI.hpp>

#include <cmath>
#include <cstring>

#include "bench_report.h"
#include "core/clock.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "graph/memory_plan.h"
#include "graph/op_def.h"
#include "graph/step_tables.h"
#include "renaissance/task/simple_task.h"

namespace tr::bench {
namespace {

constexpr int kGradients = 4, kCheckedSteps = 12;

struct Options {
  std::string json, python;
  int threads = 0, turns = 5, steps = 20;  // steps: a multiple of those between refreshes
};

struct Case {
  std::string name;  // of the row, and the peer's
  std::string op;
  std::string peer;
};
const Case kCases[] = {{"muon", "muon", "muon_fp32"},
                       {"muon, PyTorch in bf16", "muon", "muon"},
                       {"shampoo", "shampoo", "shampoo"},
                       {"soap", "soap", "soap"}};

/// The values of pattern() of the peer.
Tensor pattern(std::int64_t rows, std::int64_t columns, std::uint64_t number) {
  Tensor values({rows * columns}, DType::FP32);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    auto bits = std::uint32_t((std::uint64_t(i) + 1) * 2654435761u + number * 40503u * 65537u);
    bits = (bits ^ (bits >> 15)) * 2246822519u;
    bits ^= bits >> 13;
    values.data<float>()[i] = float(bits % 65536u) / 32768.0f - 1.0f;
  }
  return values;
}

/// One optimizer on one weight: as many graphs as gradients.
class Steps {
 public:
  Steps(const std::string& op, std::int64_t rows, std::int64_t columns, int threads)
      : task_({DeviceKind::CPU, threads}), start_(pattern(rows, columns, 0)) {
    const OpDef& def = OpRegistry::instance().get(op);
    Attrs attrs = {{"matrices", std::vector<std::int64_t>{0, rows, columns}}};
    if (op == "soap") attrs.set("beta1", 0.95).set("beta2", 0.95).set("preconditioner_beta", 0.95);
    if (op == "shampoo") attrs.set("block_size", std::max(rows, columns));
    const Shape range{rows * columns};
    weights_ = task_.alloc(range);
    for (int i = 0; i < kGradients; ++i) gradients_.push_back(task_.alloc(range));
    const DTensor segments = task_.alloc({std::int64_t(sizeof(Segment))}, DType::UINT8);
    const DTensor floats = task_.alloc({1, step_floats_columns(1)});
    counters_ = task_.alloc({kNumCounters}, DType::INT64);
    const DTensor loss_scale = task_.alloc({}), found = task_.alloc({}, DType::INT32),
                  sumsq = task_.alloc({});
    std::vector<DTensor> state = {task_.alloc(range), task_.alloc(range)};
    if (def.own_state) state.push_back(task_.alloc({def.own_state(complete_attrs(def, attrs))}));
    task_.finalize_memory();
    for (int i = 0; i < kGradients; ++i) {
      std::vector<DTensor> inputs = {
          weights_, gradients_[std::size_t(i)], segments, floats, counters_, loss_scale, found,
          sumsq};
      inputs.insert(inputs.end(), state.begin(), state.end());
      task_.add_graph(std::to_string(i), {{op, inputs, {}, attrs}});
    }
    task_.compile();
    task_.transfer(start_, weights_);
    for (int i = 0; i < kGradients; ++i)
      task_.transfer(pattern(rows, columns, std::uint64_t(i) + 1), gradients_[std::size_t(i)]);
    Segment segment{.count = rows * columns, .param = 0, .rows = std::int32_t(rows)};
    std::vector<std::uint8_t> bytes(sizeof segment);
    std::memcpy(bytes.data(), &segment, sizeof segment);
    task_.transfer(Tensor::from({std::int64_t(bytes.size())}, bytes), segments);
    Tensor row = Tensor::zeros({1, step_floats_columns(1)});
    row.data<float>()[kFloatHeader + int(kGroupLr)] = 1e-3f;
    task_.transfer(row, floats);
    task_.fill(loss_scale, 1);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) task_.run(std::to_string(done_++ % kGradients));
  }
  double mean_ms(int steps) {
    run(steps);
    const Stopwatch watch;
    run(steps);
    return watch.ms() / steps;
  }
  double moved() const {
    const Tensor now = task_.fetch(weights_);
    double sum = 0;
    for (std::int64_t i = 0; i < now.num_elements(); ++i)
      sum += std::pow(now.at(i) - start_.at(i), 2);
    return std::sqrt(sum);
  }

 private:
  SimpleTask task_;
  Tensor start_;
  DTensor weights_, counters_;
  std::vector<DTensor> gradients_;
  int done_ = 0;
};

/// What is measured beside what.
struct Bench {
  Report& report;
  const Options& options;
  PeerProcess* peer;  // null: none
  std::string version;
};

void measure(const Bench& bench, const Case& what, std::int64_t rows, std::int64_t columns) {
  const auto& [report, options, peer, version] = bench;
  Steps steps(what.op, rows, columns, options.threads);
  const std::string of_peer = fmt::format("{} {} {} ", what.peer, rows, columns);
  std::optional<double> error;
  if (peer != nullptr) {
    Steps checked(what.op, rows, columns, options.threads);
    checked.run(kCheckedSteps);
    const double theirs = std::stod(peer->ask(fmt::format("moved {}{}", of_peer, kCheckedSteps)));
    error = std::abs(checked.moved() - theirs) / theirs;
  }
  std::vector<double> ours, theirs;
  for (int turn = 0; turn < options.turns; ++turn) {
    ours.push_back(steps.mean_ms(options.steps));
    if (peer != nullptr)
      theirs.push_back(std::stod(peer->ask(fmt::format("time {}{}", of_peer, options.steps))));
  }
  Row row = make_row(fmt::format("{} {}x{}", what.name, rows, columns), "ms", summarize(ours));
  row.error = error;
  if (peer != nullptr) set_peer(row, version, summarize(theirs), /*less_is_better=*/true);
  report.add(row);
}

int run_command(int argc, char** argv) {
  Options options;
  std::vector<std::string> only;
  CLI::App app("Steps of Muon, Shampoo and SOAP on one weight on the CPU.");
  app.add_option("--json", options.json, "file for the report, - for standard output");
  app.add_option("--python", options.python, "Python with torch: runs the peer");
  app.add_option("--threads", options.threads, "compute threads of both sides; 0: all cores");
  app.add_option("--turns", options.turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps of a turn, a multiple of 10")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", only, "muon, shampoo, soap");
  CLI11_PARSE(app, argc, argv);
  if (options.threads == 0) options.threads = default_num_threads();
  Report report(argc, argv);
  report.set_env("threads", std::to_string(options.threads));
  std::unique_ptr<PeerProcess> peer;
  std::string version;
  if (!options.python.empty()) {
    peer = std::make_unique<PeerProcess>(
        options.python, std::vector<std::string>{find_peer("matrix_optimizers.py"), "cpu",
                                                 std::to_string(options.threads)});
    version = peer->ask("version");
    report.set_env("peer", version);
  }
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{512, 784}, {1024, 1024}}) {
    for (const Case& what : kCases) {
      const bool wanted =
          only.empty() || std::find(only.begin(), only.end(), what.op) != only.end();
      if (wanted) measure({report, options, peer.get(), version}, what, rows, columns);
    }
  }
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run_command, argc, argv); }
