// SPDX-License-Identifier: Apache-2.0
// Random DAGs of ops on whole tensors: arithmetic that broadcasts, reductions, permutations,
// slices, products, softmax, norms. Gradients equal finite differences of the same program in
// double, and neither thread counts nor shared memory change a byte.
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "op/gradient_graph.h"
#include "op/op_harness.h"
#include "support/compare.h"
#include "support/reference_tensor.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr int kPrograms = 80;

/// One op of a program: what it does in double, and as a node.
struct Step {
  std::string op;
  Attrs attrs;
  std::vector<std::size_t> inputs;
  std::function<Array(const std::vector<Array>&)> f;
};

double silu(double x) { return x / (1 + std::exp(-x)); }

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      const Shape shape = i == 2 ? Shape{1, 3, 1} : Shape{2, 3, 4};
      inputs_.push_back(Tensor::uniform(shape, -1, 1, 10 * seed + std::uint64_t(i)));
      shapes_.push_back(shape);
    }
    const std::uint64_t count = 3 + below(7);
    for (std::uint64_t i = 0; i < count; ++i) grow();
  }

  const std::vector<Tensor>& inputs() const { return inputs_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Values that no step reads.
  std::vector<std::size_t> ends() const {
    std::vector<std::size_t> all;
    for (std::size_t v = inputs_.size(); v < shapes_.size(); ++v) {
      bool read = false;
      for (const Step& step : steps_) {
        for (const std::size_t in : step.inputs) read = read || in == v;
      }
      if (!read) all.push_back(v);
    }
    return all;
  }
  Tensor dy(std::size_t value) const {
    return Tensor::uniform(shapes_[value], -1, 1, 1000 + value);
  }

  /// Sum of dy times value over the ends.
  double objective(const std::vector<Array>& inputs) const {
    std::vector<Array> values = inputs;
    for (const Step& step : steps_) {
      std::vector<Array> in;
      for (const std::size_t v : step.inputs) in.push_back(values[v]);
      values.push_back(step.f(in));
    }
    double sum = 0;
    for (const std::size_t end : ends()) {
      const Array weight = array_of(dy(end));
      for (std::size_t i = 0; i < weight.values.size(); ++i) {
        sum += weight.values[i] * values[end].values[i];
      }
    }
    return sum;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  void keep(Step step, const Shape& shape) {
    steps_.push_back(std::move(step));
    shapes_.push_back(shape);
  }

  void add_binary(std::size_t a) {
    const std::size_t b = below(shapes_.size());
    if (!broadcasts(shapes_[a], shapes_[b])) return add_map(a);
    const Shape shape = ref::broadcast_shape(shapes_[a], shapes_[b]);
    const char* const ops[] = {"add", "sub", "mul"};
    const std::uint64_t which = below(3);
    keep({ops[which],
          {},
          {a, b},
          [which](const std::vector<Array>& in) {
            return ref::combine(in[0], in[1], [which](double x, double y) {
              return which == 0 ? x + y : which == 1 ? x - y : x * y;
            });
          }},
         shape);
  }
  static bool broadcasts(const Shape& a, const Shape& b) {
    for (int back = 1; back <= std::min(a.rank(), b.rank()); ++back) {
      if (a[-back] != b[-back] && a[-back] != 1 && b[-back] != 1) return false;
    }
    return true;
  }

  void add_map(std::size_t a) {
    const char* const ops[] = {"tanh", "silu", "sin"};
    const std::uint64_t which = below(3);
    keep({ops[which],
          {},
          {a},
          [which](const std::vector<Array>& in) {
            Array y = in[0];
            for (double& v : y.values) {
              v = which == 0 ? std::tanh(v) : which == 1 ? silu(v) : std::sin(v);
            }
            return y;
          }},
         shapes_[a]);
  }

  void add_reduction(std::size_t a) {
    const int axis = int(below(std::uint64_t(shapes_[a].rank())));
    const Shape small = shapes_[a].with_dim(axis, 1);
    const bool mean = below(2) == 0;
    keep({mean ? "mean" : "sum",
          {{"axes", Ints{axis}}, {"keepdims", true}},
          {a},
          [mean, small](const std::vector<Array>& in) {
            return ref::reduce(in[0], small, small, [mean](const std::vector<double>& v) {
              double sum = 0;
              for (const double x : v) sum += x;
              return mean ? sum / double(v.size()) : sum;
            });
          }},
         small);
  }

  void add_softmax(std::size_t a) {
    const int axis = int(below(std::uint64_t(shapes_[a].rank())));
    const Shape small = shapes_[a].with_dim(axis, 1);
    keep({"softmax",
          {{"axis", std::int64_t(axis)}},
          {a},
          [small](const std::vector<Array>& in) {
            const Array sums = ref::reduce(in[0], small, small, [](const std::vector<double>& v) {
              double sum = 0;
              for (const double x : v) sum += std::exp(x);
              return sum;
            });
            return ref::combine(in[0], sums,
                                [](double x, double sum) { return std::exp(x) / sum; });
          }},
         shapes_[a]);
  }

  void add_transpose(std::size_t a) {
    const Shape& x = shapes_[a];
    const Shape y = x.with_dim(1, x[2]).with_dim(2, x[1]);
    keep({"transpose",
          {{"axis0", std::int64_t{1}}, {"axis1", std::int64_t{-1}}},
          {a},
          [y](const std::vector<Array>& in) {
            return ref::moved(in[0], y, [](Ints place) {
              std::swap(place[1], place[2]);
              return place;
            });
          }},
         y);
  }

  void add_slice(std::size_t a) {
    const std::int64_t length = shapes_[a][2], first = length > 1 ? 1 : 0;
    const Shape y = shapes_[a].with_dim(2, length - first);
    keep({"slice",
          {{"axes", Ints{2}}, {"starts", Ints{first}}, {"ends", Ints{100}}, {"steps", Ints{1}}},
          {a},
          [y, first](const std::vector<Array>& in) {
            return ref::moved(in[0], y, [first](Ints place) {
              place[2] += first;
              return place;
            });
          }},
         y);
  }

  /// The product of a with itself, transposed: both gradients meet in one tensor.
  void add_gram(std::size_t a) {
    const Shape& x = shapes_[a];
    const Shape y = x.with_dim(2, x[1]);
    keep({"matmul",
          {{"transpose_b", true}},
          {a, a},
          [y](const std::vector<Array>& in) {
            Array product(y);
            const std::int64_t k = in[0].shape[2];
            for (std::int64_t i = 0; i < y.num_elements(); ++i) {
              const Ints place = ref::coordinates(y, i);
              for (std::int64_t t = 0; t < k; ++t) {
                product[i] += ref::at(in[0], {place[0], place[1], t}) *
                              ref::at(in[1], {place[0], place[2], t});
              }
            }
            return product;
          }},
         y);
  }

  void grow() {
    const std::size_t a = below(shapes_.size());
    switch (below(8)) {
      case 0:
      case 1: return add_binary(a);
      case 2: return add_map(a);
      case 3: return add_reduction(a);
      case 4: return add_softmax(a);
      case 5: return add_transpose(a);
      case 6: return add_slice(a);
      default: return add_gram(a);
    }
  }

  std::mt19937_64 random_;
  std::vector<Tensor> inputs_;
  std::vector<Shape> shapes_;
  std::vector<Step> steps_;
};

/// Gradients of the program's inputs, empty where none reaches one.
std::vector<Tensor> gradients_of(const Program& program, int threads, const PlanOptions& memory) {
  GradientGraph graph;
  std::vector<TensorId> values;
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    values.push_back(graph.place("in" + std::to_string(i), program.inputs()[i]));
  }
  const std::vector<TensorId> wanted = values;
  for (const Step& step : program.steps()) {
    std::vector<TensorId> in;
    for (const std::size_t v : step.inputs) in.push_back(values[v]);
    values.push_back(graph.builder().add(step.op, in, step.attrs));
  }
  std::vector<std::pair<TensorId, TensorId>> seeds;
  for (const std::size_t end : program.ends()) {
    seeds.emplace_back(values[end], graph.place("dy" + std::to_string(end), program.dy(end)));
  }
  return graph.run(seeds, wanted, threads, memory);
}

TEST(RandomTensorTest, GradientsEqualFiniteDifferences) {
  std::map<std::string, int> used;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(seed);
    for (const Step& step : program.steps()) ++used[step.op];
    const std::vector<Tensor> got = gradients_of(program, 1, {});
    std::vector<Array> inputs;
    for (const Tensor& tensor : program.inputs()) inputs.push_back(array_of(tensor));
    for (std::size_t v = 0; v < inputs.size(); ++v) {
      Array want(inputs[v].shape);
      double size = 1;
      for (std::int64_t i = 0; i < want.shape.num_elements(); ++i) {
        const double start = inputs[v][i], h = 1e-5;
        inputs[v][i] = start + h;
        const double up = program.objective(inputs);
        inputs[v][i] = start - h;
        want[i] = (up - program.objective(inputs)) / (2 * h);
        inputs[v][i] = start;
        size = std::max(size, std::abs(want[i]));
      }
      if (got[v].empty()) {
        for (const double value : want.values) EXPECT_EQ(value, 0);
        continue;
      }
      EXPECT_TRUE(is_close(got[v], want, tolerance(DType::FP32, 64, 16 * size), "gradient"));
    }
  }
  EXPECT_GE(used.size(), 11u) << "an op is never drawn";
}

TEST(RandomTensorTest, ThreadsAndSharedMemoryChangeNoByte) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(seed);
    const std::vector<Tensor> one = gradients_of(program, 1, {});
    const std::vector<Tensor> three = gradients_of(program, 3, {});
    const std::vector<Tensor> apart = gradients_of(program, 1, {.reuse = false, .in_place = false});
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (one[i].empty()) continue;
      EXPECT_TRUE(same_bytes(three[i], one[i], "three threads"));
      EXPECT_TRUE(same_bytes(apart[i], one[i], "separate memory"));
    }
  }
}

}  // namespace
}  // namespace tr::test
