// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/types.h"

namespace tr {

/// Kinds beside those that InitKind names, which it has room for.
namespace init {
inline constexpr InitKind kFixedUniform{11};
inline constexpr InitKind kFixedTruncNormal{12};
inline constexpr InitKind kLecunNormal{13};
inline constexpr InitKind kLecunUniform{14};
inline constexpr InitKind kOrthogonal{15};
inline constexpr InitKind kDirac{16};
inline constexpr InitKind kSparse{17};
}  // namespace init

/// How parameters begin. fan is fan-in (weights that feed one output), fan-out (weights that one
/// input feeds) or their mean, by FanMode; g = scale * sqrt(2 / (1 + a^2)):
///
///   KAIMING_UNIFORM  U(-b, b), b = g * sqrt(3 / fan)
///   KAIMING_NORMAL   N(0, s),  s = g / sqrt(fan)
///   XAVIER_UNIFORM   U(-b, b), b = scale * sqrt(6 / (fan_in + fan_out))
///   XAVIER_NORMAL    N(0, s),  s = scale * sqrt(2 / (fan_in + fan_out))
///   kLecunUniform    U(-b, b), b = scale * sqrt(3 / fan)
///   kLecunNormal     N(0, s),  s = scale / sqrt(fan)
///   TRUNC_NORMAL     N(0, s),  s = sqrt(scale / fan), drawn again beyond 2 s
///   FIXED_NORMAL     N(0, param);      kFixedTruncNormal  the same, drawn again beyond 2 param
///   kFixedUniform    U(-param, param)
///   CONSTANTS        param;            ZEROS, NONE  0
///
/// Of a weight as a matrix, its first axis (outputs) by all others:
///
///   kOrthogonal      scale * Q of the QR decomposition of an N(0, 1) matrix (of its transpose if
///                    it is wide), the diagonal of R positive. torch.nn.init.orthogonal_
///   kDirac           fc: 1 on the diagonal, torch.nn.init.eye_
///                    conv: output d of each of `param` groups (1 if param < 1) takes
///                    input d of the group at the window's centre,
///                    torch.nn.init.dirac_
///   kSparse          N(0, 0.01 scale), in each column ceil(param * rows) elements 0.
///                    torch.nn.init.sparse_
///
/// Biases are 0, normalisation weights 1 and biases 0, unless a rule of layer() says otherwise.
/// Every number is addressed by (seed, the parameter's name, element): it depends on no other
/// parameter. Source of the default: the articles (PyTorch's Linear and Conv2d use a = sqrt 5).
class TR_API Initializer {
 public:
  /// @param param  of CONSTANTS, FIXED_*, kFixed*, kDirac and kSparse
  /// @throws InvalidArgument  STANDARD and ZERO_GAMMA belong to bn(); kSparse outside 0 to 1.
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
  /// Parameters whose name begins with `prefix` ("head.", "4.bias"), biases and normalisation too.
  /// Of rules that match a name the last one given holds. compile() refuses a rule that matches
  /// nothing, and a kind that needs a fan or a matrix for a parameter that is a vector.
  Initializer& layer(const std::string& prefix, InitKind kind, float param = 0.01f);
  /// The same from a safetensors file with PyTorch's names and layouts: the part of the name behind
  /// `prefix` is looked up behind `prefix_in_file`; buffers too. compile() refuses a tensor that is
  /// missing or of another shape.
  Initializer& from_file(const std::string& path, const std::string& prefix = "",
                         const std::string& prefix_in_file = "");

  struct Rule {
    std::string prefix;
    InitKind kind = InitKind::NONE;
    float param = 0;
    std::string path, prefix_in_file;  // of from_file(); empty path: by kind
  };
  struct Options {
    InitKind conv_kind = InitKind::KAIMING_UNIFORM;
    InitKind fc_kind = InitKind::KAIMING_UNIFORM;
    float conv_param = 0.01f;
    float fc_param = 0.01f;
    bool zero_gamma = false;
    FanMode fan = FanMode::FAN_IN;
    float scale = 1.0f;
    float nonlinearity = 0.0f;
    std::vector<Rule> rules;
  };
  const Options& options() const { return options_; }
  /// Replaces the rules of layer() and from_file(). @throws InvalidArgument  as they do.
  Initializer& rules(const std::vector<Rule>& all);

 private:
  Options options_;
};

/// "kaiming_uniform", "fixed_normal", ...
TR_API std::string_view name_of(InitKind kind);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API InitKind init_kind_from_name(std::string_view name);
/// "fan_in", "fan_out", "fan_avg"
TR_API std::string_view name_of(FanMode mode);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API FanMode fan_mode_from_name(std::string_view name);

}  // namespace tr
