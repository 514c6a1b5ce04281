// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

/// Bit mask of what parameters are for: weights (fc, conv, embeddings), their biases, and weights
/// and biases of normalisation.
enum class ParamKinds : std::uint8_t { WEIGHTS = 1, BIASES = 2, NORMS = 4, ALL = 7 };
constexpr ParamKinds operator|(ParamKinds a, ParamKinds b) {
  return ParamKinds(std::uint8_t(a) | std::uint8_t(b));
}
constexpr bool has(ParamKinds mask, ParamKinds bit) {
  return (std::uint8_t(mask) & std::uint8_t(bit)) != 0;
}

/// Rates of some parameters, as torch.optim's param_groups set them. What is unset stays as the
/// scheduler, the optimizer and other groups have it: a parameter may be in several groups, as long
/// as no two of them set the same thing differently.
///
///   rate of a step   the schedule's times lr_scale, or times lr / base_lr of the scheduler
///   weight decay     weight_decay, or the optimizer's times decay_scale; either holds for biases
///                    and norms too, which otherwise take none
///   momentum         SGD's; beta1, beta2: Adam's and AdamW's, each in [0, 1). Other optimizers
///                    have them for all parameters, and so has a schedule that moves them
struct TR_API ParamGroup {
  /// Names that begin so; * stands for any characters: "features.", "*.attn.*weight". "": all.
  std::string match;
  ParamKinds kinds = ParamKinds::ALL;
  std::optional<double> lr, lr_scale;
  std::optional<double> weight_decay, decay_scale;
  std::optional<double> momentum, beta1, beta2;

  /// @throws InvalidArgument  a number that is negative or not finite, a momentum or beta of 1 or
  /// more, a rate or a decay both as value and as factor, or nothing set.
  void validate() const;
};

/// Rates that fall by `factor` from each part of a network to the one before it (timm's
/// layer_decay): the last prefix keeps the schedule's rate, the i-th of n has factor^(n - 1 - i) of
/// it. @throws InvalidArgument  a factor outside (0, 1], no prefix, or one that begins another.
TR_API std::vector<ParamGroup> layer_decay(double factor, const std::vector<std::string>& prefixes);

}  // namespace tr
