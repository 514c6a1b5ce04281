// SPDX-License-Identifier: Apache-2.0
#pragma once

// The formulas of backend/optimizer_formulas.h from an op's attributes. f(formula) is called with
// the one that the attributes ask for.

#include "backend/optimizer_formulas.h"
#include "renaissance/graph/attrs.h"

namespace tr::formulas {

inline Lion lion_of(const Attrs& a) { return {a.f32("beta1"), a.f32("beta2")}; }

template <typename Math, typename F>
void with_rmsprop(const Attrs& a, F&& f) {
  const float alpha = a.f32("alpha"), eps = a.f32("eps"), momentum = a.f32("momentum");
  if (a.flag("centered")) {
    if (momentum > 0) return f(RmsProp<Math, true, true>{alpha, eps, momentum});
    return f(RmsProp<Math, true, false>{alpha, eps, momentum});
  }
  if (momentum > 0) return f(RmsProp<Math, false, true>{alpha, eps, momentum});
  f(RmsProp<Math, false, false>{alpha, eps, momentum});
}

template <typename Math>
Adagrad<Math> adagrad_of(const Attrs& a) {
  return {a.f64("lr_decay"), a.f32("initial"), a.f32("eps")};
}

template <int kMoments>
Lars<kMoments> lars_of(const Attrs& a) {
  return {a.f32("momentum"),         a.f32("trust_coefficient"), a.f32("eps"),
          a.flag("nesterov"),        a.flag("trust_clip"),       a.flag("always_adapt"),
          a.flag("rate_in_momentum")};
}
template <typename F>
void with_lars(const Attrs& a, F&& f) {
  if (a.f64("momentum") > 0) return f(lars_of<1>(a));
  f(lars_of<0>(a));
}

template <typename Math>
Lamb<Math> lamb_of(const Attrs& a) {
  return {a.f64("beta1"), a.f64("beta2"), a.f32("eps"), a.flag("trust_clip"),
          a.flag("always_adapt")};
}

/// What muon does to elements that are in no matrix.
template <typename Math>
AdamW<Math> muon_adam_of(const Attrs& a) {
  return {a.f64("beta1"), a.f64("beta2"), a.f64("adam_rate"), a.f32("adam_eps")};
}
inline MuonStep muon_step_of(const Attrs& a) {
  return {a.f32("momentum"), a.f32("eps"), a.flag("nesterov"), a.flag("match_rms")};
}

}  // namespace tr::formulas
