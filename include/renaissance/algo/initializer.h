// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance/core/export.h"
#include "renaissance/core/types.h"

namespace tr {

/// How weights begin. fan is fan-in (weights that feed one output), fan-out (weights that one input
/// feeds) or their mean, by FanMode; g = scale * sqrt(2 / (1 + a^2)):
///
///   KAIMING_UNIFORM  U(-b, b), b = g * sqrt(3 / fan)
///   KAIMING_NORMAL   N(0, s),  s = g / sqrt(fan)
///   XAVIER_UNIFORM   U(-b, b), b = scale * sqrt(6 / (fan_in + fan_out))
///   XAVIER_NORMAL    N(0, s),  s = scale * sqrt(2 / (fan_in + fan_out))
///   TRUNC_NORMAL     N(0, s),  s = sqrt(scale / fan), drawn again beyond 2 s
///   FIXED_NORMAL     N(0, param)
///   CONSTANTS        param;    ZEROS, NONE  0
///
/// Biases are 0, normalisation weights 1 and biases 0. Every number is addressed by (seed, the
/// parameter's name, element): it depends on no other parameter.
/// Source of the default: the articles (PyTorch's Linear and Conv2d use a = sqrt 5).
class TR_API Initializer {
 public:
  /// @param param  of CONSTANTS and FIXED_NORMAL
  /// @throws InvalidArgument  STANDARD and ZERO_GAMMA belong to bn().
  Initializer& conv(InitKind kind, float param = 0.01f);
  Initializer& fc(InitKind kind, float param = 0.01f);
  /// STANDARD or ZERO_GAMMA. @throws InvalidArgument  any other kind.
  Initializer& bn(InitKind kind);
  /// The weight of each norm that ends a residual branch (see bn(), block()) begins at 0.
  Initializer& zero_gamma(bool on = true);
  Initializer& fan(FanMode mode);
  /// @throws InvalidArgument  not positive.
  Initializer& scale(float value);
  /// a, the negative slope of the activation that follows. @throws InvalidArgument  not finite.
  Initializer& nonlinearity(float a);

  struct Options {
    InitKind conv_kind = InitKind::KAIMING_UNIFORM;
    InitKind fc_kind = InitKind::KAIMING_UNIFORM;
    float conv_param = 0.01f;
    float fc_param = 0.01f;
    bool zero_gamma = false;
    FanMode fan = FanMode::FAN_IN;
    float scale = 1.0f;
    float nonlinearity = 0.0f;
  };
  const Options& options() const { return options_; }

 private:
  Options options_;
};

}  // namespace tr
