// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

/// An optimizer's settings as plain data; every builder below converts to it. The learning rate
/// comes from the Scheduler. g is the mean gradient over the global batch, after unscaling and
/// clipping; biases and normalisation parameters take no weight decay unless a parameter group says
/// so. What is unset has the default of the kind; see resolved().
struct TR_API Optimizer {
  enum class Kind { SGD, ADAM, ADAMW, LION, RMSPROP, ADAGRAD, LARS, LAMB, MUON, SHAMPOO, SOAP };
  enum class Grafting { NONE, SGD, ADAM };

  Kind kind = Kind::SGD;
  double weight_decay = 0;
  std::optional<double> momentum;       // SGD, RMSPROP, LARS: 0; MUON: 0.95
  std::optional<bool> nesterov;         // SGD, LARS: false; MUON: true
  bool decoupled_weight_decay = false;  // SGD
  std::optional<double> beta1;          // ADAM and its like, LION, MUON, SHAMPOO: 0.9; SOAP: 0.95
  std::optional<double> beta2;          // the same: 0.999; LION: 0.99; SOAP: 0.95
  std::optional<double> eps;            // 1e-8; ADAGRAD: 1e-10; LAMB: 1e-6
  double alpha = 0.99;                  // RMSPROP
  bool centered = false;                // RMSPROP
  double lr_decay = 0;                  // ADAGRAD
  double initial_accumulator = 0;       // ADAGRAD
  double trust_coefficient = 0.001;     // LARS
  bool trust_clip = false;              // LARS, LAMB
  bool always_adapt = false;            // LARS, LAMB
  bool rate_in_momentum = false;        // LARS

  bool match_rms = false;                 // MUON
  double adam_rate = 1;                   // MUON, SHAMPOO, SOAP
  std::vector<std::string> not_matrices;  // MUON, SHAMPOO, SOAP

  std::optional<double> preconditioner_beta;  // SHAMPOO: 1; SOAP: beta2
  int precondition_every = 10;                // SHAMPOO, SOAP
  double ridge = 1e-6;                        // SHAMPOO, SOAP
  int block_size = 512;                       // SHAMPOO
  Grafting grafting = Grafting::ADAM;         // SHAMPOO
  int max_preconditioner_dim = 10000;         // SOAP

  /// The same with the defaults of the kind where nothing was set.
  Optimizer resolved() const;
  /// @throws InvalidArgument  naming the field, its value and its range.
  void validate() const;
};
/// "sgd", "adam", "adamw", "lion", "rmsprop", "adagrad", "lars", "lamb", "muon",
/// "shampoo", "soap"
TR_API std::string_view name_of(Optimizer::Kind kind);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API Optimizer::Kind optimizer_kind_from_name(std::string_view name);
/// "none", "sgd", "adam"
TR_API std::string_view name_of(Optimizer::Grafting grafting);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API Optimizer::Grafting grafting_from_name(std::string_view name);

/// What all builders share. Setters may be called in any order.
/// @throws InvalidArgument  a setter: a value out of its range; the conversion: values that
/// contradict each other.
template <typename Derived>
class TR_API OptimizerBuilder {
 public:
  Derived& weight_decay(double value) { return with(&Optimizer::weight_decay, value); }
  operator Optimizer() const;  // NOLINT: implicit by design

 protected:
  explicit OptimizerBuilder(Optimizer::Kind kind) { options_.kind = kind; }
  template <typename Field, typename Value>
  Derived& with(Field Optimizer::*field, Value value) {
    options_.*field = std::move(value);
    check_ranges();
    return static_cast<Derived&>(*this);
  }

 private:
  void check_ranges() const;
  Optimizer options_;
};

/// Stochastic gradient descent.
///
///   coupled decay (default):  g += wd * w;            decoupled: w *= 1 - lr * wd
///   m = momentum * m + g  (m = g in the first step);  w -= lr * (nesterov ? g + momentum * m : m)
///
/// Agrees with torch.optim.SGD; decoupled_weight_decay(true) gives the articles' form.
class TR_API SGD : public OptimizerBuilder<SGD> {
 public:
  SGD() : OptimizerBuilder(Optimizer::Kind::SGD) {}
  SGD& momentum(double value) { return with(&Optimizer::momentum, value); }
  SGD& nesterov(bool on = true) { return with(&Optimizer::nesterov, on); }  // needs momentum > 0
  SGD& decoupled_weight_decay(bool on = true) {
    return with(&Optimizer::decoupled_weight_decay, on);
  }
};

/// Options of Adam and what is built on it.
template <typename Derived>
class TR_API AdamBuilder : public OptimizerBuilder<Derived> {
 public:
  Derived& beta1(double value) { return this->with(&Optimizer::beta1, value); }
  Derived& beta2(double value) { return this->with(&Optimizer::beta2, value); }
  Derived& eps(double value) { return this->with(&Optimizer::eps, value); }

 protected:
  using OptimizerBuilder<Derived>::OptimizerBuilder;
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

/// Every element moves by lr; one moment.
///
///   w *= 1 - lr * wd;  w -= lr * sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g
///
/// Source: arXiv:2302.06675; agrees with the package lion-pytorch. Wants a rate 3 to 10 times
/// below, and a decay as much above, those of AdamW.
class TR_API Lion : public OptimizerBuilder<Lion> {
 public:
  Lion() : OptimizerBuilder(Optimizer::Kind::LION) {}
  Lion& beta1(double value) { return with(&Optimizer::beta1, value); }
  Lion& beta2(double value) { return with(&Optimizer::beta2, value); }
};

/// The gradient over a running root of its mean square.
///
///   g += wd * w;  v = alpha v + (1 - alpha) g^2;  centered: a = alpha a + (1 - alpha) g
///   d = g / (sqrt(v - a^2) + eps)  (a = 0 unless centered)
///   momentum: m = momentum * m + d, w -= lr * m;  else w -= lr * d
///
/// Source: Hinton's lecture 6e. Agrees with torch.optim.RMSprop, but that v - a^2, negative by
/// rounding alone, counts as 0 here. Up to three moments.
class TR_API RMSprop : public OptimizerBuilder<RMSprop> {
 public:
  RMSprop() : OptimizerBuilder(Optimizer::Kind::RMSPROP) {}
  RMSprop& alpha(double value) { return with(&Optimizer::alpha, value); }
  RMSprop& eps(double value) { return with(&Optimizer::eps, value); }
  RMSprop& momentum(double value) { return with(&Optimizer::momentum, value); }
  RMSprop& centered(bool on = true) { return with(&Optimizer::centered, on); }
};

/// The gradient over the root of the sum of all its squares.
///
///   g += wd * w;  s += g^2;  w -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s + s0) + eps)
///
/// s0 is initial_accumulator(); s, which is kept, begins at 0. t as in Adam.
/// Source: Duchi, Hazan, Singer 2011. Agrees with torch.optim.Adagrad.
class TR_API Adagrad : public OptimizerBuilder<Adagrad> {
 public:
  Adagrad() : OptimizerBuilder(Optimizer::Kind::ADAGRAD) {}
  Adagrad& lr_decay(double value) { return with(&Optimizer::lr_decay, value); }
  Adagrad& initial_accumulator(double value) {
    return with(&Optimizer::initial_accumulator, value);
  }
  Adagrad& eps(double value) { return with(&Optimizer::eps, value); }
};

/// SGD whose rate follows, parameter by parameter, the size of the weights over that of the
/// gradient.
///
///   r = c |w| / (|g| + wd |w| + eps)  (1 where |w| or |g| is 0, or where the parameter takes no
///   decay, unless always_adapt());  trust_clip(): r = min(r / lr, 1)
///   g = r (g + wd w);  m = momentum * m + g;  w -= lr * (nesterov ? g + momentum * m : m)
///   rate_in_momentum():  m = momentum * m + lr * g;  w -= m
///
/// The default is the form of PyTorch Lightning Bolts and timm; rate_in_momentum() that of the
/// paper, arXiv:1708.03888, which differs where the rate changes. c is trust_coefficient().
class TR_API LARS : public OptimizerBuilder<LARS> {
 public:
  LARS() : OptimizerBuilder(Optimizer::Kind::LARS) {}
  LARS& momentum(double value) { return with(&Optimizer::momentum, value); }
  LARS& nesterov(bool on = true) { return with(&Optimizer::nesterov, on); }  // needs momentum > 0
  LARS& trust_coefficient(double value) { return with(&Optimizer::trust_coefficient, value); }
  LARS& eps(double value) { return with(&Optimizer::eps, value); }
  LARS& trust_clip(bool on = true) { return with(&Optimizer::trust_clip, on); }
  LARS& always_adapt(bool on = true) { return with(&Optimizer::always_adapt, on); }
  LARS& rate_in_momentum(bool on = true) { return with(&Optimizer::rate_in_momentum, on); }
};

/// Adam's step, its size made to follow the size of the weights, parameter by parameter.
///
///   m, v as in Adam;  u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd * w
///   r = |w| / |u|  (1 where either is 0, or where the parameter takes no decay, unless
///   always_adapt());  trust_clip(): r = min(r, 1);  w -= lr * r * u
///
/// Source: arXiv:1904.00962; agrees with timm's Lamb without its own clipping (use grad_clip()).
class TR_API LAMB : public AdamBuilder<LAMB> {
 public:
  LAMB() : AdamBuilder(Optimizer::Kind::LAMB) {}
  LAMB& trust_clip(bool on = true) { return with(&Optimizer::trust_clip, on); }
  LAMB& always_adapt(bool on = true) { return with(&Optimizer::always_adapt, on); }
};

extern template class OptimizerBuilder<SGD>;
extern template class OptimizerBuilder<Adam>;
extern template class OptimizerBuilder<AdamW>;
extern template class OptimizerBuilder<Lion>;
extern template class OptimizerBuilder<RMSprop>;
extern template class OptimizerBuilder<Adagrad>;
extern template class OptimizerBuilder<LARS>;
extern template class OptimizerBuilder<LAMB>;

}  // namespace tr
