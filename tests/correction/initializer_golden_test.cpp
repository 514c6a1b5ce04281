// SPDX-License-Identifier: Apache-2.0
// First weights against torch.nn.init: exact matrices, and the sizes of distributions.
#include <cmath>

#include "algo/fill_param.h"
#include "algo/matrix_init.h"
#include "support/compare.h"
#include "support/golden.h"
#include "task/file_layout.h"

namespace tr::test {
namespace {

const SafetensorsFile& file() {
  static const SafetensorsFile loaded = golden("initializers");
  return loaded;
}

/// A conv's weight [O, C, R, S] of a file as it lies in memory, [O, R, S, C]; others as they are.
Tensor in_memory(const Tensor& given) {
  if (given.shape().rank() != 4) return given.clone();
  const Shape& s = given.shape();
  Tensor memory(Shape{s[0], s[2], s[3], s[1]}, DType::FP32);
  for (std::int64_t o = 0, i = 0; o < s[0]; ++o) {
    for (std::int64_t r = 0; r < s[2] * s[3]; ++r) {
      for (std::int64_t c = 0; c < s[1]; ++c, ++i) {
        memory.data<float>()[i] = given.data<float>()[(o * s[1] + c) * s[2] * s[3] + r];
      }
    }
  }
  return memory;
}

ParamSpec spec_of(const std::string& name) {
  const Tensor& fans = file().at(name + ".fans");
  ParamSpec spec{.name = "weight", .type = {in_memory(file().at(name + ".normal")).shape()}};
  spec.fan_in = std::int64_t(fans.at(0));
  spec.fan_out = std::int64_t(fans.at(1));
  return spec;
}

Tensor filled(const std::string& name, const Initializer& initializer) {
  const ParamSpec spec = spec_of(name);
  Tensor out(spec.type.shape, DType::FP32);
  fill_param(spec, "w", initializer, 5, out);
  return out;
}

TEST(InitializerGolden, OrthogonalEqualsPyTorchsOfTheSameDraws) {
  for (const std::string name : {"fc", "tall", "conv"}) {
    Tensor matrix = in_memory(file().at(name + ".normal"));
    const Shape& shape = matrix.shape();
    orthogonalise(matrix.data<float>(), matrix_size(shape), 1.3f);
    EXPECT_TRUE(is_close(matrix, in_memory(file().at(name + ".orthogonal")),
                         tolerance(DType::FP32, shape.num_elements() / shape[0]), name));
  }
}

TEST(InitializerGolden, DiracAndIdentityEqualPyTorchs) {
  const auto fc = [](const std::string& name) {
    return filled(name, Initializer().fc(init::kDirac));
  };
  EXPECT_TRUE(same_bytes(fc("fc"), file().at("fc.eye")));
  EXPECT_TRUE(same_bytes(fc("tall"), file().at("tall.eye")));
  const auto conv = [](float groups) {
    return filled("conv", Initializer().conv(init::kDirac, groups));
  };
  EXPECT_TRUE(same_bytes(conv(1), in_memory(file().at("conv.dirac"))));
  EXPECT_TRUE(same_bytes(conv(2), in_memory(file().at("conv.dirac_groups"))));
}

// A number drawn for one size is, to rounding, the number drawn for another times their ratio: so
// the size of a kind is that of the standard normal, or uniform, numbers of the same address.
TEST(InitializerGolden, SizesEqualPyTorchs) {
  const auto sizes = [](const std::string& name, const Initializer& kind, const Initializer& one) {
    return filled(name, kind).at(3) / filled(name, one).at(3);
  };
  for (const std::string name : {"fc", "tall", "conv"}) {
    SCOPED_TRACE(name);
    const auto both = [](InitKind kind, float param = 0) {
      return Initializer().fc(kind, param).conv(kind, param);
    };
    const Initializer normal = both(InitKind::FIXED_NORMAL, 1),
                      uniform = both(init::kFixedUniform, std::sqrt(3.0f));
    const Tensor& std = file().at(name + ".std");
    const auto expect = [&](InitKind gauss, InitKind flat, int row, const auto& change) {
      const double rtol = tolerance(DType::FP32).rtol;
      EXPECT_NEAR(sizes(name, change(both(gauss)), normal) / std.at(row), 1, rtol) << row;
      EXPECT_NEAR(sizes(name, change(both(flat)), uniform) / std.at(row), 1, rtol) << row;
    };
    expect(InitKind::KAIMING_NORMAL, InitKind::KAIMING_UNIFORM, 0,
           [](Initializer i) { return i.nonlinearity(0.2f); });
    expect(InitKind::KAIMING_NORMAL, InitKind::KAIMING_UNIFORM, 1,
           [](Initializer i) { return i.nonlinearity(0.2f).fan(FanMode::FAN_OUT); });
    expect(InitKind::XAVIER_NORMAL, InitKind::XAVIER_UNIFORM, 2,
           [](Initializer i) { return i.scale(1.5f); });
    expect(init::kLecunNormal, init::kLecunUniform, 3, [](Initializer i) { return i; });
  }
}

}  // namespace
}  // namespace tr::test
