// SPDX-License-Identifier: Apache-2.0
// Roofline of each distinct convolution of VGG16-BN and ResNet-50, and of the norm behind it: time,
// TFLOP/s, TB/s, the larger share of what the same device reaches in a large product and in a copy,
// and the engine that ran. A sample is one launch on random values, timed by events (which add
// about 3 us); the caches are as the launch before left them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <random>

#include "backend/device_backend.h"
#include "bench_report.h"
#include "cuda_node.h"
#include "gpu_meter.h"
#include "ops/conv_geometry.h"

namespace tr::bench {
namespace {

struct Layer {
  const char* network;
  std::int64_t side, in, out, kernel, stride;
  int times;  // in the network
};

constexpr Layer kLayers[] = {
    {"vgg16bn", 224, 3, 64, 3, 1, 1},      {"vgg16bn", 224, 64, 64, 3, 1, 1},
    {"vgg16bn", 112, 64, 128, 3, 1, 1},    {"vgg16bn", 112, 128, 128, 3, 1, 1},
    {"vgg16bn", 56, 128, 256, 3, 1, 1},    {"vgg16bn", 56, 256, 256, 3, 1, 2},
    {"vgg16bn", 28, 256, 512, 3, 1, 1},    {"vgg16bn", 28, 512, 512, 3, 1, 2},
    {"vgg16bn", 14, 512, 512, 3, 1, 3},    {"resnet50", 224, 3, 64, 7, 2, 1},
    {"resnet50", 56, 64, 64, 1, 1, 1},     {"resnet50", 56, 256, 64, 1, 1, 2},
    {"resnet50", 56, 64, 64, 3, 1, 3},     {"resnet50", 56, 64, 256, 1, 1, 4},
    {"resnet50", 56, 256, 128, 1, 1, 1},   {"resnet50", 56, 128, 128, 3, 2, 1},
    {"resnet50", 56, 256, 512, 1, 2, 1},   {"resnet50", 28, 128, 512, 1, 1, 4},
    {"resnet50", 28, 512, 128, 1, 1, 3},   {"resnet50", 28, 128, 128, 3, 1, 3},
    {"resnet50", 28, 512, 256, 1, 1, 1},   {"resnet50", 28, 256, 256, 3, 2, 1},
    {"resnet50", 28, 512, 1024, 1, 2, 1},  {"resnet50", 14, 256, 1024, 1, 1, 6},
    {"resnet50", 14, 1024, 256, 1, 1, 5},  {"resnet50", 14, 256, 256, 3, 1, 5},
    {"resnet50", 14, 1024, 512, 1, 1, 1},  {"resnet50", 14, 512, 512, 3, 2, 1},
    {"resnet50", 14, 1024, 2048, 1, 2, 1}, {"resnet50", 7, 512, 2048, 1, 1, 3},
    {"resnet50", 7, 2048, 512, 1, 1, 2},   {"resnet50", 7, 512, 512, 3, 1, 2},
};

constexpr DType kDtype = DType::FP16;

/// Random halves between -1 and 1 over the whole tensor, from one block again and again.
void fill_random(void* to, std::int64_t bytes) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 24;
  static const std::vector<std::uint16_t> block = [] {
    std::mt19937 engine(1);
    std::vector<std::uint16_t> values(kBlock / 2);
    // Sign, an exponent of 2^-1 to 2^-4, a mantissa.
    for (auto& v : values) {
      const std::uint32_t bits = engine();
      v = std::uint16_t((bits & 0x83ffu) | ((11u + (bits >> 20) % 4u) << 10));
    }
    return values;
  }();
  for (std::int64_t at = 0; at < bytes; at += kBlock) {
    TR_CUDA(cudaMemcpy(static_cast<std::byte*>(to) + at, block.data(),
                       std::size_t(std::min(kBlock, bytes - at)), cudaMemcpyHostToDevice));
  }
}

struct Peaks {
  double tflops = 0, tbs = 0;
};

class Table {
 public:
  Table(Report& report, cudaStream_t stream, int n, std::int64_t batch)
      : report_(report), stream_(stream), timer_(stream), n_(n), batch_(batch) {}

  void measure_peaks() {
    const TensorType square{{8192, 8192}, kDtype};
    Node product("fc", {{"bias", false}}, {square, square}, stream_);
    for (const std::size_t i : {0u, 1u}) fill_random(product.address(i), bytes_of(square));
    peaks_.tflops = double(product.cost().flops) / seconds_of(product).median * 1e-12;
    const std::int64_t bytes = std::int64_t{1} << 30;
    std::byte *from = allocate(bytes), *to = allocate(bytes);
    const Summary copy = summarize(timer_.samples(n_, [&] {
      TR_CUDA(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyDeviceToDevice, stream_));
    }));
    peaks_.tbs = 2 * double(bytes) / copy.median * 1e-12;
    TR_CUDA(cudaFree(from));
    TR_CUDA(cudaFree(to));
    report_.set_env("peak_tflops", fmt::format("{:.0f} (fc 8192^3 fp16)", peaks_.tflops));
    report_.set_env("peak_tb_per_s", fmt::format("{:.2f} (copy of 1 GiB)", peaks_.tbs));
    std::printf("%-9s %-26s x %-24s %9s %8s %6s %7s  %s\n", "network", "layer", "op", "us",
                "TFLOP/s", "TB/s", "% peak", "kernel");
  }

  void add(const Layer& layer) {
    const Attrs attrs = attrs_of(layer);
    const TensorType x{{batch_, layer.side, layer.side, layer.in}, kDtype};
    const TensorType weight{{layer.out, layer.kernel, layer.kernel, layer.in}, kDtype};
    const ConvGeometry g =
        conv_geometry(complete_attrs(OpRegistry::instance().get("conv"), attrs), x);
    const TensorType y{g.y_shape(), kDtype};
    add_node(layer, "conv", attrs, {x, weight});
    add_node(layer, "conv_statistics", attrs, {x, weight});
    if (layer.in > 3) add_node(layer, "conv_dx", attrs, {y, weight, x});
    add_node(layer, "conv_dweight", attrs, {y, x});
    const TensorType channel{{layer.out}, DType::FP32};
    const Attrs relu = {{"activation", std::string("relu")}};
    add_node(layer, "bn_act", relu, {y, channel, channel, channel, channel});
    add_node(layer, "bn_act_backward", relu, {y, y, channel, channel, channel, channel});
    if (layer.kernel == 1 && layer.stride > 1) add_compact(layer, attrs, x, y);
  }

  /// Sums over a network, each layer as often as it stands there.
  void print_sums() const {
    for (const auto& [what, seconds] : sums_) {
      std::printf("sum %-30s %9.3f ms\n", what.c_str(), seconds * 1e3);
    }
  }

 private:
  static std::vector<std::int64_t> pair(std::int64_t v) { return {v, v}; }

  static Attrs attrs_of(const Layer& layer) {
    return {{"out_channels", layer.out},
            {"kernel", pair(layer.kernel)},
            {"stride", pair(layer.stride)},
            {"padding", pair(layer.kernel / 2)}};
  }

  Summary seconds_of(const Node& node) const {
    return summarize(timer_.samples(n_, [&] { node.enqueue(); }));
  }

  /// The gradient of a short way with a stride as the pixels that it read, and the norm that adds
  /// it to another one: as the whole map, as those pixels.
  void add_compact(const Layer& layer, Attrs attrs, const TensorType& x, const TensorType& y) {
    const TensorType weight{{layer.out, 1, 1, layer.in}, kDtype}, c{{layer.in}, DType::FP32};
    const TensorType pixels{y.shape.with_dim(3, layer.in), kDtype};
    const TensorType mask{{x.shape.num_elements() / 8}, DType::UINT8};
    attrs.set("stride", pair(1));
    add_node(layer, "conv_dx", attrs, {y, weight, pixels}, "conv_dx compact");
    Attrs norm = {{"activation", std::string("relu")}, {"residual", true}};
    add_node(layer, "bn_act_backward", norm, {x, x, c, c, c, c, x, mask}, "bn_act_backward + map");
    norm.set("more_stride", pair(layer.stride));
    add_node(layer, "bn_act_backward", norm, {x, x, c, c, c, c, pixels, mask},
             "bn_act_backward + pixels");
  }

  /// `label` stands for the op in the table, if it is given.
  void add_node(const Layer& layer, const std::string& op, const Attrs& attrs,
                const std::vector<TensorType>& in, std::string label = "") {
    if (label.empty()) label = op;
    const std::string name = fmt::format("{}x{} {}->{} @{}{}", layer.kernel, layer.kernel, layer.in,
                                         layer.out, layer.side, layer.stride > 1 ? " s2" : "");
    try {
      Node node(op, attrs, in, stream_);
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i].dtype == kDtype) fill_random(node.address(i), bytes_of(in[i]));
      }
      const Summary seconds = seconds_of(node);
      const double tflops = double(node.cost().flops) / seconds.median * 1e-12;
      const double tbs = double(node.cost().bytes) / seconds.median * 1e-12;
      const double share = std::max(tflops / peaks_.tflops, tbs / peaks_.tbs);
      std::printf("%-9s %-26s %d %-24s %9.1f %8.1f %6.2f %6.0f%%  %s\n", layer.network,
                  name.c_str(), layer.times, label.c_str(), seconds.median * 1e6, tflops, tbs,
                  share * 100, node.kernel().c_str());
      sums_[std::string(layer.network) + " " + label] += layer.times * seconds.median;
      Summary us = seconds;
      us.median *= 1e6, us.spread *= 1e6;
      report_.add(make_row(fmt::format("{} {} {}", layer.network, name, label), "us", us));
    } catch (const Error& refused) {
      std::printf("%-9s %-26s %d %-24s refused: %s\n", layer.network, name.c_str(), layer.times,
                  label.c_str(), refused.what());
    }
  }

  Report& report_;
  cudaStream_t stream_;
  Timer timer_;
  int n_;
  std::int64_t batch_;
  Peaks peaks_;
  std::map<std::string, double> sums_;
};

int run(int argc, char** argv) {
  CLI::App app{"Roofline of convolutions and norms, layer by layer"};
  std::int64_t batch = 256;
  int n = 15;
  std::string json, network;
  app.add_option("--batch", batch, "")->capture_default_str();
  app.add_option("-n", n, "samples of each row")->capture_default_str();
  app.add_option("--network", network, "vgg16bn or resnet50; both if not given");
  app.add_option("--json", json, "file for the rows, - for standard output");
  CLI11_PARSE(app, argc, argv);
  const DeviceBackend* backend = find_backend(DeviceKind::CUDA);
  const std::vector<DeviceInfo> devices = backend->devices();
  if (devices.empty()) throw_as<Unsupported>("{}", backend->why_none());
  Report report(argc, argv);
  report.set_env("gpu", devices[0].name);
  cudaStream_t stream = nullptr;
  TR_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  GpuMeter meter(0);
  Table table(report, stream, n, batch);
  table.measure_peaks();
  for (const Layer& layer : kLayers) {
    if (network.empty() || network == layer.network) table.add(layer);
  }
  table.print_sums();
  report.set_env("clock_and_power", meter.stop());
  report.write_json(json);
  return 0;
}

}  // namespace
}  // namespace tr::bench

int main(int argc, char** argv) { return tr::bench::run_main(tr::bench::run, argc, argv); }
