// SPDX-License-Identifier: Apache-2.0
// Its rule only: the rectangle is set to 0 by FusedNormalization.
#include "core/check.h"
#include "data/transforms/rules.h"

namespace tr::data {

TransformRule rule_of(const RandomErasing& t) {
  const std::string text = fmt::format("RandomErasing({}, scale=[{}, {}], ratio=[{}, {}])", t.p,
                                       t.scale.low, t.scale.high, t.ratio.low, t.ratio.high);
  return {.text = text, .stage = ChainStage::NORMALIZED, .check = [=] {
            check_probability(text, t.p);
            check_area(text, t.scale);
            check_ratio(text, t.ratio);
          }};
}

}  // namespace tr::data
