// SPDX-License-Identifier: Apache-2.0
// Random models (any DAG of fc, activations, add, concat, shared layers; of convolutions, batch
// norms, averages and factors on images), compiled and stepped on the CPU.
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "backend/executor.h"
#include "graph/compiler.h"
#include "graph/step_tables.h"
#include "renaissance/algo/loss.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr std::int64_t kBatch = 5, kFeatures = 6, kClasses = 4;
constexpr int kModels = 60;
const Shape kImage = {5, 6, 2};

// Smooth ones: no difference quotient meets a kink.
Value activated(const Value& x, std::uint64_t which) {
  switch (which) {
    case 0: return tanh()(x);
    case 1: return silu()(x);
    case 2: return sigmoid()(x);
    case 3: return gelu()(x);
    case 4: return softplus()(x);
    default: return mish()(x);
  }
}

class RandomModel {
 public:
  explicit RandomModel(std::uint64_t seed) : random_(seed) {}

  BluePrint build() {
    const Value image = input("image");
    values_ = {{image, kFeatures, 0}};
    const std::uint64_t count = 3 + below(8);
    for (std::uint64_t i = 0; i < count; ++i) grow();
    std::vector<Value> ends;
    for (const Made& made : values_) {
      if (made.readers == 0) ends.push_back(made.value);
    }
    const Value last = ends.size() == 1 ? ends[0] : concat(ends);
    return model(image, fc(kClasses, true)(last));
  }

 private:
  struct Made {
    Value value;
    std::int64_t width;
    int readers;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  Made& any() {
    Made& made = values_[below(values_.size())];
    ++made.readers;
    return made;
  }
  void keep(const Value& value, std::int64_t width) { values_.push_back({value, width, 0}); }

  void grow() {
    const Made a = any();
    switch (below(5)) {
      case 0: {
        const std::int64_t width = 2 + std::int64_t(below(6));
        keep(fc(width, below(3) > 0)(a.value), width);
        break;
      }
      case 1: keep(activated(a.value, below(6)), a.width); break;
      case 2: {
        const Made b = any();
        keep(add(a.value, b.width == a.width ? b.value : fc(a.width, true)(b.value)), a.width);
        break;
      }
      case 3: {
        const Made b = any();
        keep(concat({a.value, b.value}), a.width + b.width);
        break;
      }
      default: {  // one layer at two places
        const BluePrint layer = shared(fc(a.width, true));
        keep(layer(tanh()(layer(a.value))), a.width);
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<Made> values_;
};

// Images grow by convolutions and what stands around them, and end in a classifier of their means.
class RandomImageModel {
 public:
  explicit RandomImageModel(std::uint64_t seed) : random_(seed) {}

  BluePrint build() {
    const Value image = input("image");
    Made last{image, kImage[0], kImage[1], kImage[2]};
    const std::uint64_t count = 2 + below(5);
    for (std::uint64_t i = 0; i < count; ++i) last = grown(last);
    const BluePrint means =
        below(2) == 0 ? seq(gap(), flatten()) : seq(adaptive_avgpool({2, 1}), flatten());
    return model(image, fc(kClasses, true)(means(last.value)));
  }

 private:
  struct Made {
    Value value;
    std::int64_t height, width, channels;
  };

  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  Made convolved(const Made& a) {
    const std::int64_t out = 2 * (1 + std::int64_t(below(3)));
    const bool halve = a.height > 3 && a.width > 3 && below(3) == 0;
    const bool bias = below(2) == 0;
    const std::int64_t stride = halve ? 2 : 1;
    const bool depthwise = below(3) == 0;
    const Value y = depthwise ? conv_dw(3, stride, 1, {.bias = bias})(a.value)
                              : conv(out, 3, stride, 1, {.bias = bias})(a.value);
    return {y, (a.height - 1) / stride + 1, (a.width - 1) / stride + 1,
            depthwise ? a.channels : out};
  }

  Made grown(const Made& a) {
    switch (below(6)) {
      case 0: return {bn(0.1f, 1e-2f)(a.value), a.height, a.width, a.channels};
      case 1: return {activated(a.value, below(6)), a.height, a.width, a.channels};
      case 2: {  // a residual
        const Value y = conv(a.channels, 3, 1, 1)(activated(a.value, below(6)));
        return {add(bn(0.1f, 1e-2f)(y), a.value), a.height, a.width, a.channels};
      }
      case 3: {  // a factor a channel
        const Value s = sigmoid()(conv(a.channels, 1, 1, 0, {.bias = true})(gap()(a.value)));
        return {mul(a.value, s), a.height, a.width, a.channels};
      }
      case 4: {
        const Value y = avgpool(3, 1, 1, {.count_include_pad = below(2) == 0})(a.value);
        return {concat({y, a.value}), a.height, a.width, 2 * a.channels};
      }
      default: return convolved(a);
    }
  }

  std::mt19937_64 random_;
};

enum class Kind { ROWS, IMAGES };

// The compiled training step of a model and its mirror in double.
class Model {
 public:
  explicit Model(std::uint64_t seed, PlanOptions memory = {}, int threads = 1,
                 Kind kind = Kind::ROWS)
      : image_(Tensor::uniform(sample_shape(kind).prepend(kBatch), -1, 1, seed)),
        labels_(some_labels()) {
    CompileRequest request;
    request.model = kind == Kind::ROWS ? RandomModel(seed).build() : RandomImageModel(seed).build();
    request.sample_fields = {{"image", {sample_shape(kind), DType::FP32}},
                             {"label", {Shape{}, DType::INT32}}};
    request.loss = loss_spec(CrossEntropyLoss().label_smoothing(0.1f));
    request.optimizer = optimizer_spec(SGD().momentum(0.9));
    request.memory = memory;
    VariantKey key;
    key.batch = kBatch;
    key.fields = {{"image", image_.type()}, {"label", labels_.type()}};
    key.name = "train_base";
    request.variants = {key};
    const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning_);
    compiled_ = compile(request, *oracle);
    executor_ = make_cpu_executor(compiled_, {.num_threads = threads});
    for (std::size_t i = 0; i < params().size(); ++i) {
      weights_.push_back(
          array_of(Tensor::uniform(params()[i].spec.type.shape, -0.7f, 0.7f, 100 + i)));
      const Tensor start = tensor_of(weights_[i]);
      executor_->write(executor_->place(params()[i].name), start.raw(),
                       std::int64_t(start.num_bytes()));
    }
    fill_tables();
  }

  const std::vector<Param>& params() const { return compiled_.arch.params; }
  std::vector<Array>& weights() { return weights_; }
  Executor& executor() { return *executor_; }

  void step() {
    bind();
    executor_->run(0);
  }
  void step_by_labels() {
    bind();
    for (int label = 0; label < kNumGraphIds; ++label) executor_->run(0, GraphId(label));
  }

  Tensor read(const std::string& name, const Shape& shape) {
    Tensor tensor(shape, DType::FP32);
    executor_->read(executor_->place(name), tensor.raw(), std::int64_t(tensor.num_bytes()));
    return tensor;
  }

  /// Sum of the losses, in double, from the plan's layers.
  double loss() const {
    std::vector<Array> values = {array_of(image_)};
    for (const ArchLayer& layer : compiled_.arch.layers) {
      std::vector<Array> in;
      for (int value : layer.inputs) in.push_back(values[std::size_t(value)]);
      for (int param : layer.params) in.push_back(weights_[std::size_t(param)]);
      values.push_back(apply(layer, in));
    }
    const Array& scores = values[std::size_t(compiled_.arch.outputs[0])];
    return ref::nll(ref::log_softmax(scores), array_of(labels_), 0.1f)[0];
  }

 private:
  static Shape sample_shape(Kind kind) { return kind == Kind::ROWS ? Shape{kFeatures} : kImage; }

  static ref::Window window_of(const Attrs& attrs) {
    const auto pair = [&](const char* name) {
      const std::vector<std::int64_t>& v = attrs.ints(name);
      return ref::Pair{v[0], v[1]};
    };
    return {.kernel = pair("kernel"), .stride = pair("stride"), .padding = pair("padding")};
  }

  static Array apply_image(const ArchLayer& layer, const std::vector<Array>& in) {
    if (layer.op == "conv") {
      const std::int64_t groups = layer.attrs.i64("groups");
      return ref::conv(in[0], in[1], in.size() > 2 ? &in[2] : nullptr, window_of(layer.attrs),
                       groups > 0 ? groups : in[0].shape.back());
    }
    if (layer.op == "bn") return ref::batch_norm(in[0], in[1], in[2], layer.attrs.f64("eps"));
    if (layer.op == "gap") return ref::adaptive_avgpool(in[0], {1, 1});
    if (layer.op == "adaptive_avgpool") return ref::adaptive_avgpool(in[0], {2, 1});
    ref::Window window = window_of(layer.attrs);  // avgpool
    window.count_padding = layer.attrs.flag("count_include_pad");
    return ref::avgpool(in[0], window);
  }

  static Array apply(const ArchLayer& layer, const std::vector<Array>& in) {
    static const std::set<std::string> image_ops = {"conv", "bn", "gap", "adaptive_avgpool",
                                                    "avgpool"};
    if (image_ops.contains(layer.op)) return apply_image(layer, in);
    if (layer.op == "flatten") {
      Array y(Shape{in[0].shape[0], in[0].shape.drop_first().num_elements()});
      y.values = in[0].values;
      return y;
    }
    if (layer.op == "mul") return ref::mul(in[0], in[1]);
    if (layer.op == "fc") return ref::fc(in[0], in[1], in.size() > 2 ? &in[2] : nullptr);
    if (layer.op == "add") return ref::add(in[0], in[1]);
    if (layer.op == "concat") return ref::concat(in, -1);
    Array y = in[0];
    for (double& value : y.values) value = ref::activation(layer.op, layer.attrs, value);
    return y;
  }

  static Tensor some_labels() {
    const std::int32_t labels[kBatch] = {1, 3, 0, 2, 1};
    return Tensor::from({kBatch}, std::span<const std::int32_t>(labels));
  }

  void fill_tables() {
    const std::size_t columns = std::size_t(step_floats_columns(1));
    std::vector<float> rows(std::size_t(GraphOptions{}.table_capacity) * columns);
    for (std::size_t row = 0; row < rows.size(); row += columns) {
      rows[row + kFloatInvWeight] = 1.0f / kBatch;
      rows[row + kFloatHeader + int(kGroupLr)] = 0.1f;
      rows[row + kFloatHeader + int(kGroupMomentum)] = 0.9f;
    }
    executor_->write(executor_->place("step_floats"), rows.data(),
                     std::int64_t(rows.size() * sizeof(float)));
    const float scale = 1;
    executor_->write(executor_->place("loss_scale"), &scale, sizeof scale);
  }

  void bind() {
    executor_->bind_input("image", image_.raw());
    executor_->bind_input("label", labels_.raw());
  }

  Tensor image_, labels_;
  TuningTable tuning_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
  std::vector<Array> weights_;
};

void expect_gradients(Model& model) {
  const double loss = model.loss();
  model.step();
  const Tensor results = model.read("results", {kResultColumns});
  EXPECT_NEAR(results.at(kResultLossSum), loss, 1e-5 * std::abs(loss));
  for (std::size_t p = 0; p < model.params().size(); ++p) {
    const Param& param = model.params()[p];
    if (param.spec.kind == ParamKind::BUFFER) continue;
    Array want(param.spec.type.shape);
    for (std::int64_t i = 0; i < want.shape.num_elements(); ++i) {
      double& weight = model.weights()[p][i];
      const double start = weight, h = 1e-5;
      weight = start + h;
      const double up = model.loss();
      weight = start - h;
      want[i] = (up - model.loss()) / (2 * h * kBatch);
      weight = start;
    }
    const Tensor got = model.read(param.name + ".grad", want.shape);
    EXPECT_TRUE(is_close(got, want, tolerance(DType::FP32, 64, 4), param.name));
  }
}

TEST(RandomModelTest, GradientsEqualFiniteDifferences) {
  for (std::uint64_t seed = 0; seed < kModels; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    expect_gradients(model);
  }
}

TEST(RandomModelTest, GradientsOfImageModelsEqualFiniteDifferences) {
  for (std::uint64_t seed = 0; seed < kModels / 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, {}, 1, Kind::IMAGES);
    expect_gradients(model);
  }
}

// Everything that a step changes, after three steps.
std::vector<Tensor> state_after(Model& model, void (Model::*step)()) {
  for (int i = 0; i < 3; ++i) (model.*step)();
  std::vector<Tensor> state = {model.read("results", {3, kResultColumns})};
  for (const Param& param : model.params()) {
    state.push_back(model.read(param.name, param.spec.type.shape));
  }
  return state;
}

void expect_same(const std::vector<Tensor>& got, const std::vector<Tensor>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bytes(got[i], want[i]));
}

TEST(RandomModelTest, LaunchesByLabelEqualWholeSteps) {
  for (std::uint64_t seed = 0; seed < kModels; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model whole(seed), parts(seed);
    expect_same(state_after(parts, &Model::step_by_labels), state_after(whole, &Model::step));
  }
}

TEST(RandomModelTest, SharedMemoryGivesTheBytesOfSeparateMemory) {
  for (const Kind kind : {Kind::ROWS, Kind::IMAGES}) {
    for (std::uint64_t seed = 0; seed < kModels; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Model shared(seed, {}, 1, kind), separate(seed, {.reuse = false, .in_place = false}, 1, kind);
      EXPECT_LE(shared.executor().arena_bytes(), separate.executor().arena_bytes());
      expect_same(state_after(shared, &Model::step), state_after(separate, &Model::step));
    }
  }
}

TEST(RandomModelTest, ThreadCountsGiveTheSameBytes) {
  for (const Kind kind : {Kind::ROWS, Kind::IMAGES}) {
    for (std::uint64_t seed = 0; seed < kModels / 4; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      Model one(seed, {}, 1, kind), three(seed, {}, 3, kind);
      expect_same(state_after(three, &Model::step), state_after(one, &Model::step));
    }
  }
}

}  // namespace
}  // namespace tr::test
