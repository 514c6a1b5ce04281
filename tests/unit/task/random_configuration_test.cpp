// SPDX-License-Identifier: Apache-2.0
// Random configurations, losses and models are run for a few steps or refused in words: no other
// exception, no crash. tests/fuzz/compile_fuzz.cpp does the same from text.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "renaissance/core/error.h"
#include "support/small_run.h"
#include "task/config.h"
#include "toy.h"

namespace tr::test {
namespace {

constexpr int kConfigurations = 400;
constexpr int kSteps = 3;

class RandomTask {
 public:
  explicit RandomTask(std::uint64_t seed) : random_(seed) {}

  /// What was chosen, for the message of a failure.
  const std::string& text() const { return text_; }

  DeepLearningTask build() {
    DeepLearningTask task;
    Session session;
    session.global.manual_seed(std::int64_t(below(5))).global_batch_size(int(1 + below(9)));
    const bool pictures = below(3) == 0;
    if (pictures) session.preprocessor.normalization(NormMode::CIFAR);
    task.session(session).dataset(pictures ? small_pictures() : small_set());
    task.model(model()).loss(loss()).total_epochs(2);
    const std::uint64_t count = below(4);
    for (std::uint64_t i = 0; i < count; ++i) set_one(task);
    return task;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

  Value layer_on(const Value& x) {
    const std::vector<BluePrint> parts = {
        fc(std::int64_t(below(9)), below(2) == 0),
        conv(std::int64_t(1 + below(6)), Size2d(int(1 + below(4))), Size2d(int(1 + below(3))),
             Size2d(int(below(3)))),
        conv_dw(3, 1, 1),
        bn(),
        relu(),
        gelu(),
        dropout(float(below(5)) / 4),
        stochastic_depth(0.5f),
        rrelu(),
        alpha_dropout(0.3f),
        maxpool(int(1 + below(4))),
        avgpool(2),
        gap(),
        flatten(),
        softmax(int(below(5)) - 2),
        glu(int(below(4)) - 1),
        layer_norm(),
        group_norm(std::int64_t(1 + below(4))),
        sum({std::int64_t(below(5)) - 1}, below(2) == 0),
        mean({std::int64_t(below(4))}),
        permute({0, 2, 1, 3}),
        transpose(1, -1),
        slice(int(below(5)) - 1, std::int64_t(below(4)), std::int64_t(below(9))),
        reshape({-1, std::int64_t(below(9))}),
        clamp(float(below(3)), float(below(3))),
        attention(std::int64_t(4 * below(3)), std::int64_t(below(4))),
        residual(tanh()),
        squeeze_excite(3, 2),
        stop_gradient()};
    return one_of(parts)(x);
  }

  BluePrint model() {
    const Value image = input("image");
    std::vector<Value> values = {image};
    const std::uint64_t count = below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      const Value a = one_of(values);
      switch (below(6)) {
        case 0: values.push_back(add(a, one_of(values))); break;
        case 1: values.push_back(concat({a, one_of(values)}, int(below(5)) - 1)); break;
        case 2: values.push_back(matmul(a, one_of(values), below(2) == 0, below(2) == 0)); break;
        default: values.push_back(layer_on(a));
      }
    }
    if (below(4) != 0) values.push_back(fc(4, true)(flatten()(values.back())));
    std::vector<Value> outputs = {values.back()};
    if (below(6) == 0) outputs.push_back(one_of(values));
    return tr::model(std::vector<Value>{image}, outputs);
  }

  Loss loss() {
    switch (below(9)) {
      case 0: return MSELoss();
      case 1: return BCEWithLogitsLoss().pos_weight({1, 2, 3, 0.5f});
      case 2: return HuberLoss().delta(0.3);
      case 3: return KLDivLoss().logits(2).target_output(1);
      case 4: return FocalLoss().output(int(below(2)));
      case 5: return Loss(CrossEntropyLoss()) + 0.1 * Loss(L1Loss());
      case 6: return CrossEntropyLoss().class_weights({1, 2, 3, 4}).ignore_index(2);
      case 7: {
        const Value d = sub(model_output(int(below(2))), input(below(2) == 0 ? "target" : "label"));
        return OwnLoss("own", below(2) == 0 ? mean({})(square()(d)) : sum({1})(square()(d)));
      }
      default: return CrossEntropyLoss().label_smoothing(float(below(3)) / 8);
    }
  }

  std::string value_for(const ConfigKey& key) {
    const std::string type(key.type);
    if (type.find('|') != std::string::npos) {
      std::vector<std::string> words(1);
      for (const char c : type) {
        if (c == '|')
          words.emplace_back();
        else
          words.back() += c;
      }
      return one_of(words);
    }
    if (type == "bool") return below(2) == 0 ? "true" : "false";
    if (type == "integer")
      return one_of<std::string>({"-1", "0", "1", "2", "3", "5", "7", "64", "1000", "100000000"});
    if (type == "number")
      return one_of<std::string>({"-1", "0", "1e-30", "1e-8", "0.001", "0.1", "0.3", "0.5", "0.9",
                                  "1", "2", "10", "1e6", "1e38", "inf", "nan"});
    return one_of<std::string>({"",
                                "0",
                                "2",
                                "1,2",
                                "0.5",
                                "val_loss",
                                "top1",
                                "macro_f1",
                                "cosine",
                                "one_cycle",
                                "plateau",
                                "linear",
                                "cosine_warm_restarts",
                                "fc",
                                "0=fp32",
                                "=low",
                                "1.",
                                "normal:0.1",
                                "orthogonal",
                                "@1-2",
                                "x"});
  }

  void set_one(DeepLearningTask& task) {
    const auto keys = config_keys();
    const ConfigKey& key = keys[below(keys.size())];
    if (reaches_outside(key.name)) return;
    const std::string value = value_for(key);
    text_ += (text_.empty() ? "" : "; ") + std::string(key.name) + "=" + value;
    task.set(std::string(key.name), value);
  }

  std::mt19937_64 random_;
  std::string text_;
};

TEST(RandomConfiguration, IsRunOrRefused) {
  const toy::Quiet quiet;
  std::map<std::string, int> outcomes;
  for (std::uint64_t seed = 0; seed < kConfigurations; ++seed) {
    RandomTask random(seed);
    std::string outcome;
    try {
      DeepLearningTask task = random.build();
      run_steps(task, kSteps);
      outcome = "run";
    } catch (const InternalError& error) {
      ADD_FAILURE() << "seed " << seed << ", " << random.text() << ": " << error.what();
    } catch (const Error& error) {
      outcome = "refused";
      EXPECT_FALSE(std::string(error.what()).empty());
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << ", " << random.text() << ": no Error: " << error.what();
    }
    ++outcomes[outcome];
  }
  EXPECT_GE(outcomes["run"], kConfigurations / 10) << "hardly anything is run";
  EXPECT_GE(outcomes["refused"], kConfigurations / 10) << "hardly anything is refused";
}

}  // namespace
}  // namespace tr::test
