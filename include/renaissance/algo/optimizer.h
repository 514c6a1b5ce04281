// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "renaissance/core/export.h"

namespace tr {

/// An optimizer's settings as plain data; every builder below converts to it. The learning rate
/// comes from the Scheduler. g is the mean gradient over the global batch, after unscaling and
/// clipping; biases and normalisation parameters take no weight decay unless a parameter group says
/// so.
struct TR_API Optimizer {
  enum class Kind { SGD, ADAM, ADAMW };

  Kind kind = Kind::SGD;
  double weight_decay = 0;
  double momentum = 0;                  // SGD
  bool nesterov = false;                // SGD
  bool decoupled_weight_decay = false;  // SGD
  double beta1 = 0.9, beta2 = 0.999;    // ADAM, ADAMW
  double eps = 1e-8;                    // ADAM, ADAMW

  /// @throws InvalidArgument  naming the field, its value and its range.
  void validate() const;
};
/// "sgd", "adam", "adamw"
TR_API std::string_view name_of(Optimizer::Kind kind);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API Optimizer::Kind optimizer_kind_from_name(std::string_view name);

/// Stochastic gradient descent.
///
///   coupled decay (default):  g += wd * w;            decoupled: w *= 1 - lr * wd
///   m = momentum * m + g  (m = g in the first step);  w -= lr * (nesterov ? g + momentum * m : m)
///
/// Agrees with torch.optim.SGD; decoupled_weight_decay(true) gives the articles' form.
class TR_API SGD {
 public:
  SGD& momentum(double value);                  // default 0
  SGD& weight_decay(double value);              // default 0
  SGD& nesterov(bool on = true);                // default off; needs momentum > 0
  SGD& decoupled_weight_decay(bool on = true);  // default off
  /// @throws InvalidArgument  nesterov without momentum.
  operator Optimizer() const;  // NOLINT: implicit by design

 private:
  Optimizer options_;
};

/// Options of Adam and AdamW.
template <typename Derived>
class TR_API AdamBuilder {
 public:
  Derived& beta1(double value);         // default 0.9, in [0, 1)
  Derived& beta2(double value);         // default 0.999, in [0, 1)
  Derived& eps(double value);           // default 1e-8, > 0
  Derived& weight_decay(double value);  // default 0
  operator Optimizer() const;           // NOLINT: implicit by design

 protected:
  explicit AdamBuilder(Optimizer::Kind kind);

 private:
  Optimizer options_;
};

/// Adam with coupled (L2) weight decay.
///
///   g += wd * w;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
///   w -= lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
///
/// t counts the steps that changed the weights.
/// Source: arXiv:1412.6980. Agrees with torch.optim.Adam.
class TR_API Adam : public AdamBuilder<Adam> {
 public:
  Adam() : AdamBuilder(Optimizer::Kind::ADAM) {}
};

/// Adam with decoupled weight decay: w *= 1 - lr * wd, then Adam with g alone.
/// Source: arXiv:1711.05101. Agrees with torch.optim.AdamW, whose default decay is 0.01; ours is 0.
class TR_API AdamW : public AdamBuilder<AdamW> {
 public:
  AdamW() : AdamBuilder(Optimizer::Kind::ADAMW) {}
};

extern template class AdamBuilder<Adam>;
extern template class AdamBuilder<AdamW>;

}  // namespace tr
