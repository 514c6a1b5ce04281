// SPDX-License-Identifier: Apache-2.0
// Optimizers over whole ranges beside sgd and adam.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/optimizer_def.h"

namespace tr {
namespace {

using ops::kFirstMoment, ops::kGradients, ops::kWeights;
using ops::Types;

void check_not_negative(const Attrs& attrs, const char* name) {
  TR_CHECK(attrs.f64(name) >= 0, "{} is {}, expected at least 0", name, attrs.f64(name));
}
void check_positive(const Attrs& attrs, const char* name) {
  TR_CHECK(attrs.f64(name) > 0, "{} is {}, expected a positive number", name, attrs.f64(name));
}

/// The common inputs, and exactly `wanted` of `places` moments.
void check_state(const Attrs& attrs, Types in, std::size_t places, std::size_t wanted) {
  ops::check_optimizer_inputs(attrs, in, places);
  ops::check_num_moments(in, kFirstMoment, places, wanted);
}

std::vector<TensorType> infer_lion(const Attrs& attrs, Types in) {
  ops::check_fraction(attrs, "beta1");
  ops::check_fraction(attrs, "beta2");
  check_state(attrs, in, 1, 1);
  return {};
}

std::vector<TensorType> infer_rmsprop(const Attrs& attrs, Types in) {
  ops::check_fraction(attrs, "alpha");
  ops::check_fraction(attrs, "momentum");
  check_positive(attrs, "eps");
  const std::size_t wanted =
      1 + (attrs.flag("centered") ? 1u : 0u) + (attrs.f64("momentum") > 0 ? 1u : 0u);
  check_state(attrs, in, 3, wanted);
  return {};
}

std::vector<TensorType> infer_adagrad(const Attrs& attrs, Types in) {
  check_not_negative(attrs, "lr_decay");
  check_not_negative(attrs, "initial");
  check_positive(attrs, "eps");
  check_state(attrs, in, 1, 1);
  return {};
}

std::vector<TensorType> infer_lars(const Attrs& attrs, Types in) {
  ops::check_fraction(attrs, "momentum");
  check_positive(attrs, "trust_coefficient");
  check_positive(attrs, "eps");
  const bool momentum = attrs.f64("momentum") > 0;
  TR_CHECK(momentum || !(attrs.flag("nesterov") || attrs.flag("rate_in_momentum")),
           "nesterov or rate_in_momentum is on and momentum 0, expected a momentum above 0");
  TR_CHECK(!(attrs.flag("nesterov") && attrs.flag("rate_in_momentum")),
           "nesterov and rate_in_momentum are on, expected one of them");
  check_state(attrs, in, 1, momentum ? 1 : 0);
  return {};
}

std::vector<TensorType> infer_lamb(const Attrs& attrs, Types in) {
  ops::check_fraction(attrs, "beta1");
  ops::check_fraction(attrs, "beta2");
  check_positive(attrs, "eps");
  check_state(attrs, in, 2, 2);
  return {};
}

OpDef lion_def() {
  OpDef def = ops::optimizer_def("lion", 1, 9);
  def.attrs.push_back({"beta1", 0.9, false, "weight of the moment in the step"});
  def.attrs.push_back({"beta2", 0.99, false, "weight of the past in the moment"});
  def.infer = infer_lion;
  def.doc = "w *= 1 - lr wd; w -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g. lion-pytorch";
  return def;
}

OpDef rmsprop_def() {
  OpDef def = ops::optimizer_def("rmsprop", 3, 12);
  def.num_optional_inputs = 3;
  def.attrs.push_back({"alpha", 0.99, false, "weight of the past in the mean square"});
  def.attrs.push_back({"eps", 1e-8, false, ""});
  def.attrs.push_back({"momentum", 0.0, false, "0: none; else it is in the last moment"});
  def.attrs.push_back({"centered", false, false, "moment2 is the mean of the gradient"});
  def.infer = infer_rmsprop;
  def.doc =
      "g += wd w; v = a v + (1 - a) g^2; centered: c = a c + (1 - a) g; d = g / (sqrt(v - c^2) + "
      "eps); m = momentum m + d; w -= lr m. torch.optim.RMSprop";
  return def;
}

OpDef adagrad_def() {
  OpDef def = ops::optimizer_def("adagrad", 1, 7);
  def.attrs.push_back({"lr_decay", 0.0, false, ""});
  def.attrs.push_back({"initial", 0.0, false, "what the sum of squares begins at; not in moment1"});
  def.attrs.push_back({"eps", 1e-10, false, ""});
  def.infer = infer_adagrad;
  def.doc =
      "g += wd w; s += g^2; w -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s + initial) + eps). "
      "torch.optim.Adagrad";
  return def;
}

OpDef lars_def() {
  OpDef def = ops::optimizer_def("lars", 1, 12, {kWeights, kGradients});
  def.num_optional_inputs = 2;
  def.attrs.push_back({"momentum", 0.0, false, "0: no moment1"});
  def.attrs.push_back({"nesterov", false, false, ""});
  def.attrs.push_back({"trust_coefficient", 0.001, false, ""});
  def.attrs.push_back({"eps", 1e-8, false, ""});
  def.attrs.push_back({"trust_clip", false, false, "r = min(r / lr, 1)"});
  def.attrs.push_back({"always_adapt", false, false, "parameters without decay too"});
  def.attrs.push_back({"rate_in_momentum", false, false, "m = momentum m + lr g; w -= m"});
  def.infer = infer_lars;
  def.doc =
      "r = trust_coefficient |w| / (|g| + wd |w| + eps) a parameter; g = r (g + wd w); m = "
      "momentum "
      "m + g; w -= lr (nesterov ? g + momentum m : m). timm.optim.Lars";
  return def;
}

OpDef lamb_def() {
  OpDef def = ops::optimizer_def("lamb", 2, 24, {kWeights, kFirstMoment, kFirstMoment + 1});
  def.attrs.push_back({"beta1", 0.9, false, ""});
  def.attrs.push_back({"beta2", 0.999, false, ""});
  def.attrs.push_back({"eps", 1e-6, false, ""});
  def.attrs.push_back({"trust_clip", false, false, "r = min(r, 1)"});
  def.attrs.push_back({"always_adapt", false, false, "parameters without decay too"});
  def.infer = infer_lamb;
  def.doc =
      "m, v as in adam; u = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + wd w; r = |w| / |u| "
      "a "
      "parameter; w -= lr r u. timm.optim.Lamb";
  return def;
}

const OpRegistration kLion{lion_def()};
const OpRegistration kRmsprop{rmsprop_def()};
const OpRegistration kAdagrad{adagrad_def()};
const OpRegistration kLars{lars_def()};
const OpRegistration kLamb{lamb_def()};

}  // namespace
}  // namespace tr
