// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

/// One term of a loss, as plain data. What it compares an output of the model with is `target`, the
/// first of these that is set: target_value, target_output, field.
struct TR_API LossTerm {
  enum class Kind { CROSS_ENTROPY, MSE, L1, HUBER, SMOOTH_L1, BCE_WITH_LOGITS, FOCAL, KL_DIV, OWN };

  Kind kind = Kind::CROSS_ENTROPY;
  std::string field = "label";         // of the data set
  int output = 0;                      // which output of the model
  int target_output = -1;              // >= 0: another output, which gets no gradient (a teacher)
  std::optional<double> target_value;  // one number for all elements
  double weight = 1;                   // factor of the term
  float label_smoothing = 0;           // CROSS_ENTROPY, in [0, 1]
  std::vector<float> class_weights;    // CROSS_ENTROPY, one a class; empty: 1
  std::optional<std::int64_t> ignore_index;  // CROSS_ENTROPY
  std::vector<float> pos_weight;       // BCE_WITH_LOGITS: one, or one an element of the last axis
  double delta = 1;                    // HUBER; beta of SMOOTH_L1
  double alpha = 0.25;                 // FOCAL
  double gamma = 2;                    // FOCAL
  bool logits = false;                 // KL_DIV: outputs are scores, not log-probabilities
  double temperature = 1;              // KL_DIV of scores
  std::string own_name;                // OWN: what records call it
  BluePrint own = BluePrint(nullptr);  // OWN: its one output, from outputs of the model and fields
  bool class_scores = false;           // OWN: output 0 of the model holds scores of classes

  /// @throws InvalidArgument  naming the option, its value and its range.
  void validate() const;
};
/// "cross_entropy", "mse", "l1", "huber", "smooth_l1", "bce_with_logits", "focal", "kl_div", "own"
TR_API std::string_view name_of(LossTerm::Kind kind);
/// The inverse, but for "own". @throws InvalidArgument  an unknown name.
TR_API LossTerm::Kind loss_kind_from_name(std::string_view name);

/// What a task trains for: the sum of its terms. Every loss builder converts to it; a + b adds
/// terms, a number times a loss weighs them. Values reported and gradients are means over the valid
/// samples of the global batch.
struct TR_API Loss {
  std::vector<LossTerm> terms;

  std::string name() const;  // "cross_entropy", "cross_entropy+mse"
  /// The same with every option that is not its default: "cross_entropy(label_smoothing=0.1)".
  std::string text() const;
  /// @throws InvalidArgument  no term, or a term that is not valid.
  void validate() const;
};
TR_API Loss operator+(Loss a, const Loss& b);
TR_API Loss operator*(double weight, Loss loss);

/// Options that all losses share.
template <typename Derived>
class LossBuilder {
 public:
  /// The data set's field that the output is compared with.
  Derived& field(std::string name) {
    return set([&] { term_.field = std::move(name); });
  }
  /// The model's output, from 0.
  Derived& output(int index) {
    return set([&] { term_.output = index; });
  }
  /// Compares with another output of the model instead of a field. That one gets no gradient.
  Derived& target_output(int index) {
    return set([&] { term_.target_output = index; });
  }
  /// Compares with one number instead of a field.
  Derived& target_value(double value) {
    return set([&] { term_.target_value = value; });
  }
  /// @throws InvalidArgument  an option is out of range.
  operator Loss() const {  // NOLINT: implicit by design
    const Loss loss{{term_}};
    loss.validate();
    return loss;
  }

 protected:
  LossBuilder(LossTerm::Kind kind, std::string field) {
    term_.kind = kind;
    term_.field = std::move(field);
  }
  template <typename F>
  Derived& set(F change) {
    change();
    return static_cast<Derived&>(*this);
  }
  LossTerm term_;
};

/// Cross entropy of class scores [N, C] with labels [N] (INT32 or INT64) or with class
/// probabilities [N, C] (FP32).
///
///   L = -(1 - s) w[y] log p[y] - (s / C) sum_c w[c] log p[c]
///   log p = log_softmax(scores), s = label_smoothing, w = class_weights
///
/// With probabilities q the target is (1 - s) q + s / C. With weights or ignore_index and labels
/// the mean over a micro-batch is divided by the sum of w[y] over the labels that count, instead of
/// by their number; it is 0 where none counts. Agrees with torch.nn.CrossEntropyLoss.
class CrossEntropyLoss : public LossBuilder<CrossEntropyLoss> {
 public:
  CrossEntropyLoss() : LossBuilder(LossTerm::Kind::CROSS_ENTROPY, "label") {}
  /// @throws InvalidArgument  outside [0, 1].
  CrossEntropyLoss& label_smoothing(float value) {
    term_.label_smoothing = value;
    term_.validate();
    return *this;
  }
  CrossEntropyLoss& class_weights(std::vector<float> weights) {
    return set([&] { term_.class_weights = std::move(weights); });
  }
  /// Samples of this label count neither in the loss nor in its mean.
  CrossEntropyLoss& ignore_index(std::int64_t label) {
    return set([&] { term_.ignore_index = label; });
  }
};

/// Mean over a sample's elements of (y - target)^2, then over samples. Agrees with
/// torch.nn.MSELoss.
class MSELoss : public LossBuilder<MSELoss> {
 public:
  MSELoss() : LossBuilder(LossTerm::Kind::MSE, "target") {}
};

/// The same of |y - target|. Agrees with torch.nn.L1Loss.
class L1Loss : public LossBuilder<L1Loss> {
 public:
  L1Loss() : LossBuilder(LossTerm::Kind::L1, "target") {}
};

/// The same of d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2), d = y - target. Agrees
/// with torch.nn.HuberLoss.
class HuberLoss : public LossBuilder<HuberLoss> {
 public:
  HuberLoss() : LossBuilder(LossTerm::Kind::HUBER, "target") {}
  HuberLoss& delta(double value) {
    return set([&] { term_.delta = value; });
  }
};

/// The same of d^2 / (2 beta) where |d| < beta, else |d| - beta / 2. Agrees with
/// torch.nn.SmoothL1Loss.
class SmoothL1Loss : public LossBuilder<SmoothL1Loss> {
 public:
  SmoothL1Loss() : LossBuilder(LossTerm::Kind::SMOOTH_L1, "target") {}
  SmoothL1Loss& beta(double value) {
    return set([&] { term_.delta = value; });
  }
};

/// Mean over a sample's elements of max(x, 0) - x t + log(1 + exp(-|x|)), then over samples, for t
/// in [0, 1]; with pos_weight p of (1 - t) x + (1 + (p - 1) t) (log(1 + exp(-|x|)) + max(-x, 0)).
/// Agrees with torch.nn.BCEWithLogitsLoss.
class BCEWithLogitsLoss : public LossBuilder<BCEWithLogitsLoss> {
 public:
  BCEWithLogitsLoss() : LossBuilder(LossTerm::Kind::BCE_WITH_LOGITS, "target") {}
  /// One number, or one for each element of the output's last axis.
  BCEWithLogitsLoss& pos_weight(std::vector<float> weights) {
    return set([&] { term_.pos_weight = std::move(weights); });
  }
};

/// Mean over a sample's elements of alpha_t (1 - p_t)^gamma bce(x, t), then over samples; p_t is
/// the probability that sigmoid(x) gives to t. alpha below 0: alpha_t = 1. Source:
/// arXiv:1708.02002. Agrees with torchvision.ops.sigmoid_focal_loss(reduction="mean").
class FocalLoss : public LossBuilder<FocalLoss> {
 public:
  FocalLoss() : LossBuilder(LossTerm::Kind::FOCAL, "target") {}
  FocalLoss& alpha(double value) {
    return set([&] { term_.alpha = value; });
  }
  FocalLoss& gamma(double value) {
    return set([&] { term_.gamma = value; });
  }
};

/// Sum over a sample's elements of t (log t - y), then mean over samples, for log-probabilities y.
/// Agrees with torch.nn.KLDivLoss(reduction="batchmean").
class KLDivLoss : public LossBuilder<KLDivLoss> {
 public:
  KLDivLoss() : LossBuilder(LossTerm::Kind::KL_DIV, "target") {}
  /// The output is class scores [N, C], and so is target_output if there is one: T^2 KL(softmax(t /
  /// T) || softmax(y / T)), as in distillation (arXiv:1503.02531). A field holds probabilities.
  KLDivLoss& logits(double temperature = 1) {
    return set([&] { term_.logits = true, term_.temperature = temperature; });
  }
};

/// The model's output `index`, from 0, as a value that an OwnLoss reads: input("output") or, after
/// the first, input("output.1") ...
TR_API Value model_output(int index = 0);

/// A loss that the user writes as an expression of ops over outputs of the model and fields of the
/// data:
///
///   const Value d = sub(model_output(), input("target"));
///   task.loss(OwnLoss("charbonnier", mean({1})(sqrt()(affine(1, 1e-6f)(square()(d))))));
///
/// The expression is computed in fp32 whatever amp says; gradients come from its ops' rules.
///
/// @param name   in records, messages and checkpoints
/// @param value  [N], the loss of each sample, which is averaged over the samples of the global
/// batch;
///               or one number, [], the loss of the micro-batch, which is averaged over
///               micro-batches and ranks by their samples, as is torch's loss.backward() of batches
///               of one size
/// @throws InvalidArgument  the name is empty or has characters beside letters, digits, _ and -; no
///   output of the model is read; at compile(): another shape, integers, a layer with parameters or
///   draws.
class TR_API OwnLoss {
 public:
  OwnLoss(std::string name, const Value& value);
  /// Output 0 of the model holds class scores [N, C]: accuracies are counted as with cross entropy.
  OwnLoss& class_scores();
  operator Loss() const { return Loss{{term_}}; }  // NOLINT: implicit by design

 private:
  LossTerm term_;
};

}  // namespace tr
