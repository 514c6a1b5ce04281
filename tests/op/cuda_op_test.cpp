// SPDX-License-Identifier: Apache-2.0
// Every op case on a GPU: against the double reference, finite differences, the CPU, itself, and
// the captured launch; sizes that fill grids more than once; ops that only draw, count or record.
#include <cmath>
#include <limits>
#include <set>

#include "graph/step_tables.h"
#include "op/op_harness.h"
#include "support/compare.h"
#include "support/device.h"

namespace tr::test {
namespace {

constexpr TaskDevice kGpu{DeviceKind::CUDA, 0};

// Ops that move data or round once: every device has the same bytes.
bool is_exact(const std::string& op) {
  static const std::set<std::string> exact = {
      "add",   "cast",      "concat",  "where",      "tril",           "masked_fill",
      "triu",  "permute",   "slice",   "transpose",  "reshape",        "less",
      "equal", "not_equal", "greater", "less_equal", "normalize_image"};
  return exact.contains(op);
}

class CudaOpTest : public DeviceTest<DeviceKind::CUDA, testing::TestWithParam<OpCase>> {
 protected:
  template <typename Claim>
  void for_each_dtype(Claim claim) {
    for (DType dtype : GetParam().dtypes) {
      SCOPED_TRACE(std::string(name_of(dtype)));
      EXPECT_TRUE(claim(GetParam(), dtype, kGpu));
    }
  }
};

TEST_P(CudaOpTest, ForwardMatchesReference) { for_each_dtype(forward_matches_reference); }

TEST_P(CudaOpTest, GradientMatchesFiniteDifferences) {
  if (GetParam().differentiable.empty()) return;  // OpTest holds that there is no gradient rule
  for_each_dtype(gradient_matches_finite_differences);
}

TEST_P(CudaOpTest, EqualsCpu) {
  for_each_dtype([](const OpCase& c, DType t, TaskDevice gpu) {
    // Gradients of what was broadcast are sums, in an order of the device's own.
    bool sums = c.op == "where";
    if (c.op == "add") sums = c.inputs[0].num_elements() != c.inputs[1].num_elements();
    return equals_cpu(c, t, gpu, is_exact(c.op) && !sums);
  });
}

TEST_P(CudaOpTest, LaunchInPartsEqualsWhole) { for_each_dtype(parts_equal_whole); }

TEST_P(CudaOpTest, CapturedEqualsEager) { for_each_dtype(captured_equals_eager); }

TEST_P(CudaOpTest, RefusesWrongInput) { EXPECT_TRUE(refuses_wrong_input(GetParam(), kGpu)); }

INSTANTIATE_TEST_SUITE_P(All, CudaOpTest, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

// Too large for finite differences: forward against the reference, the rest against the CPU.
class CudaLargeOpTest : public CudaOpTest {};

TEST_P(CudaLargeOpTest, ForwardMatchesReference) { for_each_dtype(forward_matches_reference); }
TEST_P(CudaLargeOpTest, EqualsCpu) {
  for_each_dtype(
      [](const OpCase& c, DType t, TaskDevice gpu) { return equals_cpu(c, t, gpu, false); });
}
TEST_P(CudaLargeOpTest, CapturedEqualsEager) { for_each_dtype(captured_equals_eager); }

INSTANTIATE_TEST_SUITE_P(All, CudaLargeOpTest, testing::ValuesIn(large_cases()),
                         [](const auto& info) { return info.param.name; });

class CudaSameBytes : public DeviceTest<DeviceKind::CUDA> {
 protected:
  // Outputs and written states of the op on both devices.
  static void expect_same(const std::string& op, const std::vector<Tensor>& inputs,
                          const Attrs& attrs = {}) {
    const std::vector<Tensor> want = run_op(op, inputs, attrs),
                              got = run_op(op, inputs, attrs, kGpu);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(same_bytes(got[i], want[i], op + ", result " + std::to_string(i)));
    }
  }
  static Tensor flag(int value) { return Tensor::full({}, value, DType::INT32); }
  static Tensor scalar(double value) { return Tensor::full({}, value); }
  // Every counter differs; row picks the third row of a table of four.
  static Tensor counters() {
    return Tensor::from({kNumCounters}, std::vector<std::int64_t>{6, 5, 4, 3, 2, 1, 0, 0});
  }
  static Tensor step_ints(std::int64_t seed, std::int64_t first_sample) {
    std::vector<std::int64_t> ints(4 * kStepInts, 99);
    ints[2 * kStepInts + kIntSeed] = seed;
    ints[2 * kStepInts + kIntSampleOffset] = first_sample;
    return Tensor::from({4, kStepInts}, ints);
  }
};

TEST_F(CudaSameBytes, RreluDrawsWhatTheCpuDraws) {
  const Attrs attrs = {{"lower", 0.1}, {"upper", 0.4}, {"draw_id", std::int64_t(-77)}};
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{64, 33}, Shape{5, 3, 2}, Shape{1001, 513}}) {
      const Tensor x = Tensor::uniform(shape, -2, 2, 1, dtype);
      const Tensor dy = Tensor::uniform(shape, -2, 2, 2, dtype);
      expect_same("rrelu", {x, counters(), step_ints(-5, 77)}, attrs);
      expect_same("rrelu_backward", {dy, x, counters(), step_ints(-5, 77)}, attrs);
      expect_same("rrelu_eval", {x}, attrs);
    }
  }
}

TEST_F(CudaSameBytes, DropoutDrawsWhatTheCpuDraws) {
  const std::vector<Shape> shapes = {{1, 1},      {64, 33},    {7, 4},      {5, 3, 2},
                                     {200, 784},  {1001, 513}, {3, 100003}, {2, 8, 8, 16},
                                     {40000, 31}, {0, 5},      {6}};
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const Tensor x = Tensor::uniform(shape, -2, 2, 1, dtype);
      const std::vector<Tensor> inputs = {x, counters(), step_ints(-5, 1234567890123)};
      for (const double p : {0.0, 0.3, 0.999}) {
        for (const std::string per : {"element", "channel", "sample"}) {
          const Attrs attrs = {{"p", p}, {"draw_id", std::int64_t(-77)}, {"per", per}};
          expect_same("dropout", inputs, attrs);
          expect_same("dropout_backward", inputs, attrs);
          if (per == "sample") continue;
          expect_same("alpha_dropout", inputs, attrs);
          expect_same("alpha_dropout_backward", inputs, attrs);
        }
      }
    }
  }
}

TEST_F(CudaSameBytes, ViewsKeepTheirBytes) {
  const Tensor x = Tensor::uniform({7, 3, 5}, -2, 2, 1, DType::FP16);
  for (const std::string op : {"flatten", "identity", "stop_gradient"}) expect_same(op, {x});
  expect_same("reshape", {x}, {{"shape", std::vector<std::int64_t>{21, -1}}});
}

TEST_F(CudaSameBytes, TopKCountsWhatTheCpuCounts) {
  const std::vector<Shape> shapes = {{1, 1},    {9, 3},     {200, 10},  {1025, 16},  {5000, 17},
                                     {77, 100}, {33, 2049}, {3, 50257}, {300001, 10}};
  for (const Shape& shape : shapes) {
    SCOPED_TRACE(shape.str());
    // Few distinct values: ties are common.
    const Tensor scores = Tensor::uniform(shape, 0, 7, 1).to(DType::INT32).to(DType::FP32);
    for (const DType label : {DType::INT32, DType::INT64}) {
      const Tensor labels = Tensor::uniform({shape[0]}, 0, float(shape[1]), 2).to(label);
      expect_same("topk_correct", {scores, labels});
      expect_same("topk_correct", {scores.to(DType::BF16), labels});
    }
  }
}

TEST_F(CudaSameBytes, TopKWithNanAndLabelsOutsideTheClasses) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {1, 1, 0, 0, 0, 0, kNan, 0, 0, 0, 0, 0, 5, kNan, 1, 1, 1, 1};
  for (const std::int32_t other : {-1, 0, 5, 6, std::numeric_limits<std::int32_t>::max()}) {
    const std::vector<std::int32_t> labels = {1, 0, other};
    expect_same("topk_correct", {Tensor::from({3, 6}, scores), Tensor::from({3}, labels)});
  }
}

TEST_F(CudaSameBytes, TheStepsTail) {
  Tensor floats = Tensor::uniform({4, step_floats_columns(2)}, 0, 1, 1);
  expect_same("loss_seed", {counters(), floats, scalar(8192)});
  const Tensor results = Tensor::uniform({4, kResultColumns}, 0, 1, 2);
  const Tensor correct = Tensor::from({2}, std::vector<std::int32_t>{123, 199});
  expect_same("record_step", {results, counters(), scalar(2.5)});
  expect_same("record_step", {results, counters(), scalar(2.5), correct});
  expect_same("record_step",
              {results, counters(), scalar(2.5), correct, flag(1), scalar(7), scalar(3)});
  expect_same("record_step", {results, counters(), scalar(2.5), Tensor(), flag(0), scalar(7)});
  for (const int found : {0, 1}) {
    for (const std::int64_t interval : {0, 1, 2, 3}) {
      for (const double scale : {1.0, 1.5, 8192.0, 3e38}) {
        expect_same("update_loss_scale", {scalar(scale), flag(found), counters()},
                    {{"growth_interval", interval}});
      }
    }
    for (const bool last : {false, true}) {
      for (const bool training : {false, true}) {
        const Attrs attrs = {{"last_micro", last}, {"training", training}};
        expect_same("advance_counters", {counters(), flag(found)}, attrs);
        expect_same("advance_counters", {counters()}, attrs);
      }
    }
  }
}

struct Call {
  std::string op;
  std::vector<Tensor> inputs;
  Attrs attrs;
};

// Grids of no block and sums of no terms: what a launch by the number of elements stumbles over.
TEST_F(CudaSameBytes, TensorsWithoutElements) {
  using Ints = std::vector<std::int64_t>;
  const Tensor none = Tensor::zeros({0, 5}), narrow = Tensor::zeros({3, 0});
  const Tensor row = Tensor::uniform({1, 5}, -1, 1, 1), x = Tensor::uniform({4, 5}, -1, 1, 2);
  const Tensor no_ids = Tensor::zeros({0}, DType::INT32);
  const std::vector<Call> calls = {
      {"relu", {none}, {}},
      {"sin", {none}, {}},
      {"add", {none, row}, {}},
      {"pow", {none, row}, {}},
      {"maximum", {none, none}, {}},
      {"less", {none, row}, {}},
      {"where", {none.to(DType::BOOL), none, row}, {}},
      {"masked_fill", {none, none.to(DType::BOOL)}, {{"value", 2.0}}},
      {"reduce_to", {none, row}, {}},
      {"mul_reduce", {none, none, row}, {}},
      {"sum", {narrow}, {{"axes", Ints{1}}}},
      {"prod", {narrow}, {{"axes", Ints{1}}}},
      {"sum", {none}, {{"axes", Ints{1}}}},
      {"permute", {none}, {{"axes", Ints{1, 0}}}},
      {"slice",
       {x},
       {{"axes", Ints{1}}, {"starts", Ints{3}}, {"ends", Ints{2}}, {"steps", Ints{1}}}},
      {"concat", {Tensor::uniform({3, 2}, -1, 1, 3), narrow}, {{"axis", std::int64_t{1}}}},
      {"concat", {none, none}, {{"axis", std::int64_t{1}}}},
      {"gather", {x, Tensor::zeros({4, 0}, DType::INT32)}, {{"axis", std::int64_t{1}}}},
      {"gather", {narrow, Tensor::zeros({3, 0}, DType::INT32)}, {{"axis", std::int64_t{1}}}},
      {"gather", {none, Tensor::zeros({0, 40}, DType::INT32)}, {{"axis", std::int64_t{1}}}},
      {"embedding", {no_ids, x}, {}},
      {"embedding", {Tensor::zeros({3}, DType::INT32), narrow}, {}},
      {"matmul", {narrow, none}, {}},
      {"matmul", {none, Tensor::zeros({5, 3})}, {}},
      {"matmul", {Tensor::zeros({0, 2, 3}), Tensor::zeros({0, 3, 4})}, {}},
      {"softmax", {none}, {{"axis", std::int64_t{1}}}},
      {"log_softmax_axis", {none}, {{"axis", std::int64_t{1}}}},
      {"layer_norm", {none, Tensor::full({5}, 1), Tensor::zeros({5})}, {}},
      {"rms_norm", {none, Tensor::full({5}, 1)}, {}}};
  for (const Call& call : calls) {
    SCOPED_TRACE(call.op);
    expect_same(call.op, call.inputs, call.attrs);
    const Tensor y = run_op(call.op, call.inputs, call.attrs).front();
    if (!is_floating(y.dtype()) || call.op.ends_with("reduce") || call.op == "reduce_to") continue;
    const std::vector<Tensor> dout = {Tensor::full(y.shape(), 1)};
    const auto gradients = [&](TaskDevice device) {
      std::vector<Tensor> douts(run_op(call.op, call.inputs, call.attrs).size());
      douts[0] = dout[0];
      return grad_op(call.op, call.inputs, call.attrs, douts, device);
    };
    const std::vector<Tensor> want = gradients({}), got = gradients(kGpu);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (want[i].empty()) continue;
      EXPECT_TRUE(same_bytes(got[i], want[i], "gradient"));
    }
  }
}

// What is not a number, and numbers outside of a table, come out as on the CPU.
TEST_F(CudaSameBytes, NotANumberStaysWhereTheCpuHasIt) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> odd = {kNan, kInf, -kInf, 0.0f, -0.0f, 1.5f, -2.5f, kNan};
  const Tensor a = Tensor::from({2, 4}, odd), b = Tensor::full({2, 4}, 0.5);
  const std::vector<std::int64_t> last = {1};
  const std::vector<Call> calls = {{"relu", {a}, {}},
                                   {"gelu", {a}, {}},
                                   {"sign", {a}, {}},
                                   {"round", {a}, {}},
                                   {"clamp", {a}, {{"min", -1.0}, {"max", 1.0}}},
                                   {"minimum", {a, b}, {}},
                                   {"minimum", {b, a}, {}},
                                   {"maximum", {a, b}, {}},
                                   {"maximum", {b, a}, {}},
                                   {"equal", {a, a}, {}},
                                   {"less", {a, b}, {}},
                                   {"logical_and", {a, b}, {}},
                                   {"amax", {a}, {{"axes", last}}},
                                   {"amin", {a}, {{"axes", last}}},
                                   {"sum", {a}, {{"axes", last}}},
                                   {"softmax", {a}, {{"axis", std::int64_t{1}}}},
                                   {"softmax", {a}, {{"axis", std::int64_t{0}}}},
                                   {"tril", {a}, {}},
                                   {"scale", {a}, {{"factor", 2.0}}}};
  for (const Call& call : calls) {
    for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
      SCOPED_TRACE(call.op + " " + std::string(name_of(dtype)));
      std::vector<Tensor> inputs;
      for (const Tensor& input : call.inputs) inputs.push_back(input.to(dtype));
      const Tensor want = run_op(call.op, inputs, call.attrs).front(),
                   got = run_op(call.op, inputs, call.attrs, kGpu).front();
      EXPECT_TRUE(is_close(got, want, tolerance(dtype, 4)));
    }
  }
  const Tensor ids = Tensor::from({4}, std::vector<std::int32_t>{-1, 4, 2, 2});
  const Tensor table = Tensor::uniform({4, 3}, -1, 1, 1);
  EXPECT_TRUE(is_close(run_op("embedding", {ids, table}, {}, kGpu).front(),
                       run_op("embedding", {ids, table}).front(), tolerance(DType::FP32)));
  const std::vector<Tensor> dout = {Tensor::uniform({4, 3}, -1, 1, 2)};
  EXPECT_TRUE(same_bytes(grad_op("embedding", {ids, table}, {}, dout, kGpu)[1],
                         grad_op("embedding", {ids, table}, {}, dout)[1]));
}

// det::exp and a fixed order of sums: a gradient made from given log-probabilities is exact.
TEST_F(CudaSameBytes, GradientsOfClassScores) {
  for (const Shape& shape : {Shape{1, 1}, Shape{200, 10}, Shape{33, 131}, Shape{1999, 17}}) {
    const Tensor logp = Tensor::uniform(shape, -6, 0, 1);
    for (const DType label : {DType::INT32, DType::INT64}) {
      Tensor labels = Tensor::uniform({shape[0]}, 0, float(shape[1]), 2).to(label);
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        const Attrs attrs = {{"label_smoothing", smoothing}};
        expect_same("nll_backward", {scalar(0.37), logp, labels}, attrs);
        for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
          expect_same("softmax_cross_entropy_backward",
                      {scalar(0.37), logp, labels, Tensor::zeros(shape, dtype)}, attrs);
        }
      }
    }
  }
}

TEST_F(CudaSameBytes, GradientsOfRegression) {
  for (const Shape& shape : {Shape{1, 1}, Shape{7, 33}, Shape{999, 1001}}) {
    const Tensor target = Tensor::uniform(shape, 0, 1, 2);
    for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
      const Tensor y = Tensor::uniform(shape, -9, 9, 1, dtype);
      expect_same("mse_backward", {scalar(0.37), y, target});
      expect_same("bce_with_logits_backward", {scalar(0.37), y, target});
    }
  }
}

class CudaLossTest : public DeviceTest<DeviceKind::CUDA> {};

TEST_F(CudaLossTest, ALabelOutsideTheClassesGivesNan) {
  for (const std::int64_t classes : {3, 40, 3000}) {
    const Tensor logits = Tensor::uniform({2, classes}, -1, 1, 1);
    for (const std::int64_t wrong : {std::int64_t(-1), classes, std::int64_t(1) << 30}) {
      const std::vector<std::int32_t> labels = {0, std::int32_t(wrong)};
      const Tensor y = Tensor::from({2}, labels);
      const Tensor loss = run_op("softmax_cross_entropy", {logits, y}, {}, kGpu).front();
      EXPECT_TRUE(std::isnan(loss.item())) << classes << " classes, label " << wrong;
      const std::vector<Tensor> dout = {Tensor::full({}, 1)};
      const Tensor dx = grad_op("softmax_cross_entropy", {logits, y}, {}, dout, kGpu).front();
      EXPECT_FALSE(std::isnan(dx.at(0)));
      EXPECT_TRUE(std::isnan(dx.at(classes)));
    }
  }
}

TEST_F(CudaLossTest, AScoreThatIsNotFiniteGivesWhatTheCpuGives) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const std::int64_t classes : {5, 70, 2500}) {
    for (const float score : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
      for (const std::int64_t place : {std::int64_t(0), classes - 1}) {
        Tensor x = Tensor::uniform({3, classes}, -1, 1, 1);
        x.data<float>()[classes + place] = score;
        const Tensor want = run_op("log_softmax", {x}).front();
        EXPECT_TRUE(is_close(run_op("log_softmax", {x}, {}, kGpu).front(), want,
                             tolerance(DType::FP32, classes, 4)))
            << score << " in class " << place << " of " << classes;
      }
    }
  }
}

// One block with a thread a row: as many threads as a block may have.
TEST_F(CudaLossTest, AThousandRowsOfFewClassesAreOneBlock) {
  for (const Shape& shape : {Shape{993, 16}, Shape{1024, 1}, Shape{1024, 16}, Shape{1025, 16}}) {
    const Tensor x = Tensor::uniform(shape, -3, 3, 1), soft = Tensor::uniform(shape, 0, 1, 2);
    const Tensor one = Tensor::full({}, 1), dlogp = Tensor::uniform(shape, -1, 1, 3);
    for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
      SCOPED_TRACE(shape.str() + " " + std::string(name_of(dtype)));
      const std::vector<Tensor> scores = {x.to(dtype), soft}, douts = {one, Tensor()};
      EXPECT_TRUE(is_close(grad_op("softmax_cross_entropy", scores, {}, douts, kGpu)[0],
                           grad_op("softmax_cross_entropy", scores, {}, douts)[0],
                           tolerance(dtype, shape[1], 4)));
      EXPECT_TRUE(is_close(grad_op("log_softmax", {x.to(dtype)}, {}, {dlogp}, kGpu)[0],
                           grad_op("log_softmax", {x.to(dtype)}, {}, {dlogp})[0],
                           tolerance(dtype, shape[1], 4)));
    }
  }
}

TEST_F(CudaLossTest, AnEmptyBatchHasLossZero) {
  EXPECT_EQ(run_op("mse", {Tensor::zeros({0, 3}), Tensor::zeros({0, 3})}, {}, kGpu)[0].item(), 0);
  const std::vector<Tensor> scores = {Tensor::zeros({0, 3}), Tensor::zeros({0}, DType::INT32)};
  EXPECT_EQ(run_op("softmax_cross_entropy", scores, {}, kGpu)[0].item(), 0);
}

}  // namespace
}  // namespace tr::test
