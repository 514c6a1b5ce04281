// SPDX-License-Identifier: Apache-2.0
// Whole-range kernels of the GPU against a copy of the same device, and products. A sample is one
// launch, timed by events; rows of ranges give GB/s of the bytes that the op must move.
#include <cuda_runtime_api.h>

#include <CLI/CLI.hpp>

#include "backend/device_backend.h"
#include "bench_report.h"
#include "core/format.h"
#include "cuda_node.h"
#include "graph/memory_plan.h"
#include "graph/op_def.h"
#include "graph/step_tables.h"

namespace tr::bench {
namespace {

struct Bench {
  Report& report;
  cudaStream_t stream;
  int n;
  PeerProcess* torch = nullptr;  // PyTorch's muon; null: not compared
  Timer timer{stream};
  Summary copy{};  // GB/s, reads and writes counted

  Summary rate(const std::vector<double>& seconds, double work) const {
    std::vector<double> rates;
    for (const double s : seconds) rates.push_back(work / s);
    return summarize(rates);
  }

  void run_copy(std::int64_t count) {
    const std::int64_t bytes = count * 4;
    std::byte *from = allocate(bytes), *to = allocate(bytes);
    copy = rate(timer.samples(n,
                              [&] {
                                TR_CUDA(cudaMemcpyAsync(to, from, std::size_t(bytes),
                                                        cudaMemcpyDeviceToDevice, stream));
                              }),
                double(2 * bytes) * 1e-9);
    TR_CUDA(cudaFree(from));
    TR_CUDA(cudaFree(to));
    report.add(make_row("copy", "GB/s", copy));
  }
  void add_range(const std::string& name, Node& node) {
    const auto seconds = timer.samples(n, [&] { node.enqueue(); });
    Row row = make_row(name, "GB/s", rate(seconds, double(node.cost().bytes) * 1e-9));
    set_peer(row, "copy", copy, /*less_is_better=*/false);
    report.add(row);
  }
  void add_product(const std::string& op, std::int64_t rows, std::int64_t in, std::int64_t out,
                   DType dtype) {
    const TensorType x{{rows, in}, dtype}, dy{{rows, out}, dtype}, weight{{out, in}, dtype};
    const TensorType bias{{out}, DType::FP32};
    const std::vector<TensorType> inputs = op == "fc"      ? std::vector{x, weight, bias}
                                           : op == "fc_dx" ? std::vector{dy, weight, x}
                                                           : std::vector{dy, x};
    const Attrs attrs = op == "fc_dweight" ? Attrs{} : Attrs{{"activation", std::string("relu")}};
    Node node(op, attrs, inputs, stream);
    const auto seconds = timer.samples(n, [&] { node.enqueue(); });
    report.add(make_row(fmt::format("{} {}x{}x{} {}", node.kernel(), rows, in, out, dtype),
                        "TFLOP/s", rate(seconds, double(node.cost().flops) * 1e-12)));
  }
};

enum class Borders { EVEN, ODD };

/// Table of 161 segments, as many as ResNet-50 has, that hold all of [0, count). EVEN: all but the
/// last border are multiples of 128, as the compiler places them; ODD: no vector ends on one.
std::vector<Segment> segment_table(std::int64_t count, Borders borders) {
  constexpr std::int64_t kSegments = 161, kAlignment = 128;
  std::vector<Segment> segments(kSegments);
  std::int64_t each = count / kSegments / kAlignment * kAlignment;
  if (borders == Borders::ODD) each = std::max<std::int64_t>(0, each - 1);
  for (std::int64_t i = 0; i < kSegments; ++i) {
    Segment& segment = segments[std::size_t(i)];
    segment.begin = i * each;
    segment.count = i + 1 < kSegments ? each : count - segment.begin;
    segment.param = std::int32_t(i);
    segment.decay_scale = 1;
  }
  return segments;
}

/// An optimizer and how many of its places for moments are taken.
struct OptimizerRow {
  std::string op;
  Attrs attrs;
  int moments, places;
};
const OptimizerRow kOptimizers[] = {{"sgd", {{"momentum", 0.9}}, 1, 1},
                                    {"adam", {}, 2, 2},
                                    {"lion", {}, 1, 1},
                                    {"rmsprop", {{"momentum", 0.9}}, 2, 3},
                                    {"adagrad", {}, 1, 1},
                                    {"lars", {{"momentum", 0.9}}, 1, 1},
                                    {"lamb", {}, 2, 2}};

/// Weights .. grad_sumsq of an optimizer.
std::vector<TensorType> optimizer_inputs(std::int64_t count, std::size_t num_segments) {
  const TensorType range{{count}, DType::FP32}, scalar{Shape{}, DType::FP32};
  return {range,
          range,
          {{std::int64_t(num_segments * sizeof(Segment))}, DType::UINT8},
          {{1, step_floats_columns(/*num_groups=*/1)}, DType::FP32},
          {{kNumCounters}, DType::INT64},
          scalar,
          {Shape{}, DType::INT32},
          scalar};
}

/// A good step in the first row of the tables.
void write_step(Node& node, const std::vector<Segment>& segments) {
  std::vector<float> row(std::size_t(step_floats_columns(/*num_groups=*/1)), 0.0f);
  row[kFloatInvWeight] = 1;
  row[std::size_t(kFloatHeader) + kGroupLr] = 1e-3f;
  row[std::size_t(kFloatHeader) + kGroupDecay] = 1e-4f;
  node.write(2, segments);
  node.write(3, row);
  node.write(4, std::vector<std::int64_t>(kNumCounters));
  node.write(5, std::vector<float>{1});         // loss_scale
  node.write(6, std::vector<std::int32_t>{0});  // found_inf
}

constexpr int kTurns = 3;  // of the peer, each the mean of n steps

/// Milliseconds of muon on one weight [rows, columns] with an fp16 copy.
void add_muon(Bench& bench, std::int64_t rows, std::int64_t columns) {
  std::vector<Segment> segments(1);
  segments[0].count = rows * columns;
  segments[0].decay_scale = 1;
  segments[0].rows = std::int32_t(rows);
  std::vector<TensorType> in = optimizer_inputs(rows * columns, 1);
  in.insert(in.end(), {in.front(), in.front(), {{rows * columns}, DType::FP16}});
  Node node("muon", {{"matrices", std::vector<std::int64_t>{0, rows, columns}}}, in, bench.stream);
  write_step(node, segments);
  std::vector<double> ms;
  for (const double s : bench.timer.samples(bench.n, [&] { node.enqueue(); })) {
    ms.push_back(s * 1e3);
  }
  Row row = make_row(fmt::format("muon {}x{}", rows, columns), "ms", summarize(ms));
  if (bench.torch != nullptr) {
    std::vector<double> theirs;
    for (int turn = 0; turn < kTurns; ++turn) {
      theirs.push_back(
          std::stod(bench.torch->ask(fmt::format("time muon {} {} 1 {}", rows, columns, bench.n))));
    }
    set_peer(row, bench.torch->ask("version"), summarize(theirs), /*less_is_better=*/true);
  }
  bench.report.add(row);
}

/// An optimizer's node over `count` parameters: a good step in the first row of the tables.
void add_optimizer(Bench& bench, const OptimizerRow& optimizer, std::int64_t count, DType cast,
                   Borders borders = Borders::EVEN) {
  const std::string& op = optimizer.op;
  const std::vector<Segment> segments = segment_table(count, borders);
  std::vector<TensorType> in = optimizer_inputs(count, segments.size());
  const TensorType range = in.front();
  for (int m = 0; m < optimizer.moments; ++m) in.push_back(range);
  std::vector<std::size_t> absent;
  for (int m = optimizer.moments; m < optimizer.places; ++m) {
    absent.push_back(in.size());
    in.push_back({});
  }
  if (cast != DType::FP32) in.push_back({{count}, cast});
  Node node(op, optimizer.attrs, in, bench.stream, absent);
  write_step(node, segments);
  bench.add_range(fmt::format("{} {}{}{}", op, count, cast == DType::FP32 ? "" : " + copy",
                              borders == Borders::ODD ? ", odd segments" : ""),
                  node);
}

void run(Bench& bench, std::int64_t count) {
  bench.run_copy(count);
  for (const DType cast : {DType::FP32, DType::FP16}) {
    for (const OptimizerRow& optimizer : kOptimizers) add_optimizer(bench, optimizer, count, cast);
  }
  add_optimizer(bench, kOptimizers[1], count, DType::FP16, Borders::ODD);
  add_muon(bench, 1024, 1024);
  add_muon(bench, 4096, 4096);
  add_muon(bench, 4096, 16384);
  const TensorType range{{count}, DType::FP32};
  {
    Node node("finite_check", {}, {range}, bench.stream);
    bench.add_range("finite_check", node);
  }
  {
    Node node("accumulate_grads", {{"first", false}, {"last", false}}, {range, range},
              bench.stream);
    bench.add_range("accumulate_grads", node);
  }
  for (const DType dtype : {DType::FP16, DType::FP32}) {
    for (const char* op : {"fc", "fc_dx", "fc_dweight"}) {
      bench.add_product(op, 200, 784, 512, dtype);
      bench.add_product(op, 4096, 4096, 4096, dtype);
      bench.add_product(op, 20000, 4096, 4096, dtype);
      bench.add_product(op, 20000, 4096, 10, dtype);
    }
  }
}

int run_command(int argc, char** argv) {
  CLI::App app("Bandwidth of whole-range CUDA kernels, and products");
  std::int64_t count = 138357544;  // parameters of VGG-16
  int n = 20;
  std::string json;
  app.add_option("--count", count, "elements of a range");
  app.add_option("-n", n, "samples of each row");
  std::string python;
  app.add_option("--python", python, "Python with torch: its muon beside ours");
  app.add_option("--json", json, "file for the rows; - for standard output");
  CLI11_PARSE(app, argc, argv);
  const DeviceBackend* backend = find_backend(DeviceKind::CUDA);
  const std::vector<DeviceInfo> devices = backend->devices();
  if (devices.empty()) {
    std::fprintf(stderr, "bench_cuda_kernels: %s\n", backend->why_none().c_str());
    return 1;
  }
  Report report(argc, argv);
  report.set_env("gpu", devices[0].name);
  report.set_env("cuda", backend->built_for);
  cudaStream_t stream = nullptr;
  TR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::unique_ptr<PeerProcess> torch;
  if (!python.empty()) {
    torch = std::make_unique<PeerProcess>(
        python, std::vector<std::string>{find_peer("matrix_optimizers.py"), "cuda", "1"});
  }
  Bench bench{report, stream, n, torch.get()};
  run(bench, count);
  report.write_json(json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run_command, argc, argv); }
