// SPDX-License-Identifier: Apache-2.0
// Steps of Muon, Shampoo and SOAP, against PyTorch in the same run: on a CPU or captured on a GPU.
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
  TaskDevice device;
  int turns = 5, steps = 20;  // steps: a multiple of those between refreshes
};

struct Case {
  std::string name;  // of the row, and the peer's
  std::string op;
  std::string peer;
};
std::vector<Case> cases(DeviceKind device) {
  std::vector<Case> all = {{"shampoo", "shampoo", "shampoo"}, {"soap", "soap", "soap"}};
  if (device == DeviceKind::CPU) {
    all.insert(all.begin(),
               {{"muon", "muon", "muon_fp32"}, {"muon, PyTorch in bf16", "muon", "muon"}});
  } else {
    all.insert(all.begin(), {"muon", "muon", "muon"});
  }
  return all;
}

/// As many weights of one shape.
struct Weights {
  std::int64_t rows, columns, count = 1;
  std::int64_t elements() const { return rows * columns; }
  std::string text() const {
    return fmt::format("{}{}x{}", count == 1 ? "" : fmt::format("{} of ", count), rows, columns);
  }
};
std::vector<Weights> weights_of(DeviceKind device) {
  if (device == DeviceKind::CPU) return {{512, 784}, {1024, 1024}};
  return {{1024, 1024}, {1024, 1024, 12}};
}

/// The values of pattern() of the peer, for each of the weights.
Tensor pattern(const Weights& of, std::uint64_t number) {
  Tensor values({of.count * of.elements()}, DType::FP32);
  for (std::int64_t i = 0; i < values.num_elements(); ++i) {
    const auto own = number + 5 * std::uint64_t(i / of.elements());
    auto bits =
        std::uint32_t((std::uint64_t(i % of.elements()) + 1) * 2654435761u + own * 40503u * 65537u);
    bits = (bits ^ (bits >> 15)) * 2246822519u;
    bits ^= bits >> 13;
    values.data<float>()[i] = float(bits % 65536u) / 32768.0f - 1.0f;
  }
  return values;
}

std::vector<Segment> segments_of(const Weights& of) {
  std::vector<Segment> segments(std::size_t(of.count));
  for (std::int64_t i = 0; i < of.count; ++i) {
    Segment& segment = segments[std::size_t(i)];
    segment.begin = i * of.elements();
    segment.count = of.elements();
    segment.param = std::int32_t(i);
    segment.rows = std::int32_t(of.rows);
  }
  return segments;
}

/// One optimizer on weights: a graph of so many steps, whose gradients take turns.
class Steps {
 public:
  Steps(const std::string& op, const Weights& of, const TaskDevice& device, int steps)
      : task_(device), start_(pattern(of, 0)), steps_(steps) {
    const OpDef& def = OpRegistry::instance().get(op);
    std::vector<std::int64_t> matrices;
    for (const Segment& s : segments_of(of))
      matrices.insert(matrices.end(), {s.begin, of.rows, of.columns});
    Attrs attrs = {{"matrices", matrices}};
    if (op == "soap") attrs.set("beta1", 0.95).set("beta2", 0.95).set("preconditioner_beta", 0.95);
    if (op == "shampoo") attrs.set("block_size", std::max(of.rows, of.columns));
    const Shape range = start_.shape();
    weights_ = task_.alloc(range);
    std::vector<DTensor> gradients;
    for (int i = 0; i < kGradients; ++i) gradients.push_back(task_.alloc(range));
    const std::vector<Segment> segments = segments_of(of);
    std::vector<std::uint8_t> bytes(segments.size() * sizeof(Segment));
    std::memcpy(bytes.data(), segments.data(), bytes.size());
    const DTensor table = task_.alloc({std::int64_t(bytes.size())}, DType::UINT8);
    const DTensor floats = task_.alloc({1, step_floats_columns(1)});
    const DTensor counters = task_.alloc({kNumCounters}, DType::INT64);
    loss_scale_ = task_.alloc({});
    const DTensor found = task_.alloc({}, DType::INT32), sumsq = task_.alloc({});
    std::vector<DTensor> state = {task_.alloc(range), task_.alloc(range)};
    if (def.own_state) state.push_back(task_.alloc({def.own_state(complete_attrs(def, attrs))}));
    task_.finalize_memory();
    std::vector<OpCall> calls;
    for (int i = 0; i < steps; ++i) {
      OpCall call{op,
                  {weights_, gradients[std::size_t(i % kGradients)], table, floats, counters,
                   loss_scale_, found, sumsq},
                  {},
                  attrs};
      call.inputs.insert(call.inputs.end(), state.begin(), state.end());
      calls.push_back(std::move(call));
    }
    task_.add_graph("steps", calls);
    task_.compile();
    task_.transfer(start_, weights_);
    for (int i = 0; i < kGradients; ++i)
      task_.transfer(pattern(of, std::uint64_t(i) + 1), gradients[std::size_t(i)]);
    task_.transfer(Tensor::from({std::int64_t(bytes.size())}, bytes), table);
    Tensor row = Tensor::zeros({1, step_floats_columns(1)});
    row.data<float>()[kFloatHeader + int(kGroupLr)] = 1e-3f;
    task_.transfer(row, floats);
    task_.fill(loss_scale_, 1);
  }

  /// A GPU is done when something can be fetched.
  void run() {
    task_.run("steps");
    task_.fetch(loss_scale_);
  }
  double mean_ms() {
    const Stopwatch watch;
    run();
    return watch.ms() / steps_;
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
  int steps_;
  DTensor weights_, loss_scale_;
};

/// What is measured beside what.
struct Bench {
  Report& report;
  const Options& options;
  PeerProcess* peer;  // null: none
  std::string version;
};

/// How far some steps move the weights, against the peer's.
std::optional<double> error_of(const Bench& bench, const Case& what, const Weights& of,
                               const std::string& of_peer) {
  if (bench.peer == nullptr) return std::nullopt;
  Steps checked(what.op, of, bench.options.device, kCheckedSteps);
  checked.run();
  const double theirs =
      std::stod(bench.peer->ask(fmt::format("moved {} {}", of_peer, kCheckedSteps)));
  return std::abs(checked.moved() - theirs) / theirs;
}

void measure(const Bench& bench, const Case& what, const Weights& of) {
  const auto& [report, options, peer, version] = bench;
  const std::string of_peer = fmt::format("{} {} {} {}", what.peer, of.rows, of.columns, of.count);
  const std::optional<double> error = error_of(bench, what, of, of_peer);
  Steps steps(what.op, of, options.device, options.steps);
  steps.run();
  std::vector<double> ours, theirs;
  for (int turn = 0; turn < options.turns; ++turn) {
    ours.push_back(steps.mean_ms());
    if (peer != nullptr)
      theirs.push_back(std::stod(peer->ask(fmt::format("time {} {}", of_peer, options.steps))));
  }
  Row row = make_row(fmt::format("{} {}", what.name, of.text()), "ms", summarize(ours));
  row.error = error;
  if (peer != nullptr) set_peer(row, version, summarize(theirs), /*less_is_better=*/true);
  report.add(row);
}

int run_command(int argc, char** argv) {
  Options options;
  std::vector<std::string> only;
  std::string device = "cpu";
  int& threads = options.device.num_threads;
  CLI::App app("Steps of Muon, Shampoo and SOAP on weights of some shapes.");
  app.add_option("--json", options.json, "file for the report, - for standard output");
  app.add_option("--python", options.python, "Python with torch: runs the peer");
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", threads, "compute threads of both sides on a CPU; 0: all cores");
  app.add_option("--turns", options.turns, "turns of each side")->check(CLI::PositiveNumber);
  app.add_option("--steps", options.steps, "steps of a turn, a multiple of 10")
      ->check(CLI::PositiveNumber);
  app.add_option("--only", only, "muon, shampoo, soap");
  CLI11_PARSE(app, argc, argv);
  options.device.kind = device == "cpu" ? DeviceKind::CPU : DeviceKind::CUDA;
  if (threads == 0) threads = default_num_threads();
  Report report(argc, argv);
  report.set_env("device", device);
  report.set_env("threads", std::to_string(threads));
  std::unique_ptr<PeerProcess> peer;
  std::string version;
  if (!options.python.empty()) {
    peer = std::make_unique<PeerProcess>(
        options.python, std::vector<std::string>{find_peer("matrix_optimizers.py"), device,
                                                 std::to_string(threads)});
    version = peer->ask("version");
    report.set_env("peer", version);
  }
  for (const Weights& of : weights_of(options.device.kind)) {
    for (const Case& what : cases(options.device.kind)) {
      const bool wanted =
          only.empty() || std::find(only.begin(), only.end(), what.op) != only.end();
      if (wanted) measure({report, options, peer.get(), version}, what, of);
    }
  }
  report.write_json(options.json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run_command, argc, argv); }
