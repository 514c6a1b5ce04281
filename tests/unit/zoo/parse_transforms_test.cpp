// SPDX-License-Identifier: Apache-2.0
#include "zoo/parse_transforms.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <variant>

#include "core/input_file.h"
#include "core/philox.h"
#include "data/transforms/words.h"
#include "renaissance/core/error.h"
#include "support/throws.h"
#include "zoo/transform_forms.h"

namespace tr::zoo {
namespace {

using test::throws;

/// The one transform of a text.
Transform parsed(const std::string& text) {
  const std::vector<Transform> all = parse_transforms(text);
  if (all.size() != 1) throw InvalidArgument(text + " is not one transform");
  return all.front();
}

// A transform that recipes and `renaissance preview` cannot name fails here.
TEST(ParseTransforms, KnowsEveryTransform) {
  std::set<std::size_t> kinds;
  for (const TransformForm& form : transform_forms()) {
    kinds.insert(form.initial.index());
    EXPECT_EQ(to_string(form.initial).find(std::string(form.name) + "("), 0u) << form.name;
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<Transform>);
  EXPECT_EQ(transform_forms().size(), kinds.size());
}

/// Another sound value of the parameter.
void change(const TransformForm& form, const TransformParameter& parameter, Transform& transform) {
  const std::string_view name = parameter.name;
  std::visit(
      [&](auto* value) {
        using M = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<M, bool>) {
          *value = !*value;
        } else if constexpr (std::is_same_v<M, int>) {
          *value += name == "kernel_size" ? 5 : 2;
        } else if constexpr (std::is_same_v<M, float>) {
          *value += *value > 0.5f && name != "max" ? -0.1f : 0.1f;
        } else if constexpr (std::is_same_v<M, Range>) {
          *value = {0.3f, 0.7f};
        } else if constexpr (std::is_same_v<M, ImageSize>) {
          *value = form.name == "Resize" ? ImageSize(2) : ImageSize(2, 5);
        } else {
          *value = form.name == "RandomAffine" ? M(0) : M(2);
        }
      },
      parameter.target(transform));
}

/// Sound values for what a program must give.
Transform sound(const TransformForm& form) {
  Transform transform = form.initial;
  for (std::size_t i = 0; i < form.num_required; ++i) {
    const Target target = form.parameters[i].target(transform);
    if (int* const* value = std::get_if<int*>(&target)) **value = 3;
    if (ImageSize* const* value = std::get_if<ImageSize*>(&target)) **value = 3;
  }
  return transform;
}

/// Every bit of every parameter.
std::string bits_of(const TransformForm& form, Transform transform) {
  std::string text;
  for (const TransformParameter& parameter : form.parameters) {
    std::visit(
        [&](auto* value) {
          using M = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<M, Range>) {
            text += std::to_string(std::bit_cast<std::uint64_t>(*value));
          } else if constexpr (std::is_same_v<M, float>) {
            text += std::to_string(std::bit_cast<std::uint32_t>(*value));
          } else if constexpr (std::is_same_v<M, ImageSize>) {
            text += data::text_of(*value);
          } else {
            text += std::to_string(int(*value));
          }
          text += ' ';
        },
        parameter.target(transform));
  }
  return text;
}

// Each parameter that a program can give has a name in texts, is told by to_string(), and comes
// back from there and from its name.
TEST(ParseTransforms, EveryParameterComesBack) {
  for (const TransformForm& form : transform_forms()) {
    Transform all = sound(form);
    for (const TransformParameter& parameter : form.parameters) {
      SCOPED_TRACE(std::string(form.name) + " " + std::string(parameter.name));
      Transform one = sound(form);
      change(form, parameter, one);
      change(form, parameter, all);
      EXPECT_NE(to_string(one), to_string(sound(form)));
      EXPECT_EQ(bits_of(form, parsed(to_string(one))), bits_of(form, one)) << to_string(one);
      std::string named = std::string(form.name) + "(";
      Transform copy = one;
      for (const TransformParameter& each : form.parameters)
        named += (named.back() == '(' ? "" : ", ") + std::string(each.name) + " = " +
                 text_of(each.target(copy));
      EXPECT_EQ(bits_of(form, parsed(named + ")")), bits_of(form, one)) << named;
    }
    EXPECT_EQ(bits_of(form, parsed(to_string(all))), bits_of(form, all)) << to_string(all);
  }
}

// sizeof counts the members: one that is added to a transform, but not to its form, fails here.
TEST(ParseTransforms, FormsHaveEveryMember) {
  for (const TransformForm& form : transform_forms()) {
    Transform transform = form.initial;
    std::size_t bytes = 0;
    std::set<const void*> members;
    for (const TransformParameter& parameter : form.parameters) {
      std::visit(
          [&](auto* value) {
            bytes += std::max<std::size_t>(sizeof *value, 4);  // bools stand alone, with padding
            members.insert(value);
          },
          parameter.target(transform));
    }
    EXPECT_EQ(members.size(), form.parameters.size()) << form.name;
    EXPECT_EQ(bytes, std::visit([](const auto& t) { return sizeof t; }, transform)) << form.name;
  }
}

TEST(ParseTransforms, FloatsComeBackBitByBit) {
  const DrawAddress address{1, DrawPurpose::SPLIT, 0, 0};
  for (std::uint32_t i = 0; i < 2000; ++i) {
    const Philox4 words = address.block(i);
    const auto unit = [](std::uint32_t word) { return float(word) * 0x1p-32f; };
    const GaussianNoise noise(unit(words.v[0]) * 255 - 200,
                              std::bit_cast<float>(words.v[1] % 0x43000000));  // 0 to 128
    const Transform back = parsed(to_string(noise));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(std::get<GaussianNoise>(back).mean),
              std::bit_cast<std::uint32_t>(noise.mean));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(std::get<GaussianNoise>(back).std),
              std::bit_cast<std::uint32_t>(noise.std))
        << to_string(noise);
  }
}

TEST(ParseTransforms, ValuesHaveNamesOrAPlaceOrWords) {
  const std::pair<const char*, Transform> kSame[] = {
      {"Pad(4)", Pad(4)},
      {"Pad(4, 7)", Pad(4, 7)},
      {"Pad(4, REFLECT)", Pad(4, 0, PadMode::REFLECT)},
      {"Pad(symmetric, 4)", Pad(4, 0, PadMode::SYMMETRIC)},
      {"Pad(mode=edge, padding=4, fill=3)", Pad(4, 3, PadMode::EDGE)},
      {" Resize( 40 ) ", Resize(40)},
      {"Resize(40.0)", Resize(40)},
      {"Resize(9, SQUARE)", Resize(9, ResizeMode::SQUARE)},
      {"Resize(9, Bicubic, antialias=off)",
       Resize(9, ResizeMode::SHORT_SIDE, Interpolation::BICUBIC, false)},
      {"Resize(\n  mode=STRETCH,\n  size=9\n)", Resize(9, ResizeMode::STRETCH)},
      {"RandomResizedCrop(9, 0.25)", RandomResizedCrop(9, 0.25f)},
      {"RandomResizedCrop(9, 0.25, 0.5, 1, 2)", RandomResizedCrop(9, 0.25f, 0.5f, 1, 2)},
      {"RandomResizedCrop(9, [0.25, 0.5], BICUBIC)",
       RandomResizedCrop(9, {0.25f, 0.5f}, {3.0f / 4, 4.0f / 3}, Interpolation::BICUBIC)},
      {"RandomResizedCrop(9, antialias=false)",
       RandomResizedCrop(9, {0.08f, 1}, {3.0f / 4, 4.0f / 3}, Interpolation::BILINEAR, false)},
      {"FastRandomResizedCrop(ratio=[1, 1])", FastRandomResizedCrop(224, {0.08f, 1}, {1, 1})},
      {"RandomErasing(0.25, 0.02, 0.4, 0.3, 3)", RandomErasing(0.25f, {0.02f, 0.4f}, {0.3f, 3})},
      {"RandomAffine(10, 0.1, 0.2, 0.9, 1.1, nearest, fill=9)",
       RandomAffine(10, {0.1f, 0.2f}, {0.9f, 1.1f})
           .with_fill(9)
           .with_interpolation(Interpolation::NEAREST)},
      {"TrivialAugment()", TrivialAugment()},
      {"GaussianNoise(1e-60)", GaussianNoise(0)},
      {"Mixup(p=0.5, alpha=0.2)", Mixup(0.2f, 0.5f)}};
  for (const auto& [text, transform] : kSame)
    EXPECT_EQ(to_string(parsed(text)), to_string(transform)) << text;
  EXPECT_TRUE(parse_transforms("  ").empty());
  EXPECT_EQ(parse_transforms("Pad(2, EDGE), RandomCrop(28),CenterCrop").size(), 3u);
}

TEST(ParseTransforms, FaultsAreToldInWords) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"Resize(22.7)", "Resize: size is 22.7, expected a whole number"},
      {"Resize(1e10)", "Resize: size is 1e10, expected a whole number"},
      {"Resize(1e9)", "size is 1000000000, must be in 1..8192"},
      {"RandAugment(2, 9.5)", "RandAugment: magnitude is 9.5"},
      {"RandomCrp(3)", "did you mean \"RandomCrop\""},
      {"RandomCrop", "RandomCrop: size is not given, expected RandomCrop(size)"},
      {"Pad(mode=EDGE)", "Pad: padding is not given, expected Pad(padding, fill=0, mode=CONSTANT)"},
      {"RandomCrop(1, 2)", "RandomCrop: 2 is a value too many"},
      {"CenterCrop(nan)", "CenterCrop: \"nan\" is no number, expected CenterCrop(size=224)"},
      {"CenterCrop(inf)", "\"inf\" is no number"},
      {"CenterCrop(+3)", "\"+3\" is no number"},
      {"CenterCrop(1e400)", "CenterCrop: size is 1e400, expected a whole number"},
      {"CenterCrop(99999999999)", "size is 99999999999, expected a whole number"},
      {"RandomRotation(1e308)", "RandomRotation: degrees is 1e308, expected what fp32 holds"},
      {"ColorJitter(hue=1e39)", "hue is 1e39, expected what fp32 holds"},
      {"Resize(9, BICUBC)", "Resize: \"BICUBC\" is no number and none of SHORT_SIDE, SQUARE, STR"},
      {"Resize(9, mode=BICUBIC)", "mode is BICUBIC, expected one of SHORT_SIDE, SQUARE, STRETCH"},
      {"Resize(9, NEAREST)", "interpolation is NEAREST, must be BILINEAR or BICUBIC"},
      {"Resize(9, antialias=2)", "Resize: antialias is 2, expected true or false"},
      {"Resize(9, size=9)", "Resize: size is given twice"},
      {"Resize(9, SQUARE, STRETCH)", "Resize: mode is given twice"},
      {"Resize(9, 1)", "Resize: mode is 1, expected one of SHORT_SIDE"},
      {"Resize(szie=9)", "Resize: parameter: unknown name \"szie\"; did you mean \"size\"?"},
      {"Resize(size=)", "Resize: size is , expected a whole number"},
      {"Resize(=9)", "Resize: parameter: unknown name \"\""},
      {"Resize(antialias=true, 9)", "Resize: 9 has no name, but stands behind a value that has"},
      {"Pad(2, fill=256)", "fill is 256, must be in 0..255"},
      {"Pad(2, fill=[1, 2, 3])", "Pad: fill is [1, 2, 3], expected a value that is no list"},
      {"RandomErasing(scale=0.5)", "RandomErasing: scale is 0.5, expected [low, high]"},
      {"RandomErasing(scale=[0.5])", "RandomErasing: scale is [0.5], expected [low, high]"},
      {"RandomErasing(scale=[0.5, x])", "RandomErasing: scale is x, expected a number"},
      {"RandomErasing(scale=[0.5, 0.1])", "scale is [0.5, 0.1], must satisfy"},
      {"RandomErasing(0.5, 0.1, [1, 2])", "[1, 2] stands where the end of scale was expected"},
      {"RandomErasing(0.5, 0.1, scale=[1, 2])", "RandomErasing: scale is given twice"},
      {"RandomErasing(scale=[0.5, 0.6)", "the list [0.5, 0.6] is not closed"},
      {"Resize(3", "Resize: its parenthesis is not closed"},
      {"Resize(3 4)", "\"4)\" stands where a comma or a parenthesis was expected"},
      {"Resize(3,)", "Resize: \"\" is no number"},
      {"Resize)3(", "\")3(\" stands where a comma or the end was expected"},
      {"Resize(3) Pad(3)", "\"Pad(3)\" stands where a comma or the end was expected"},
      {"Resize(3),,", "unknown name \"\""}};
  for (const auto& [text, words] : kWrong)
    EXPECT_TRUE(throws<InvalidArgument>([&, text = text] { parse_transforms(text); }, words))
        << text;
}

TEST(ParseTransforms, FaultsHaveTheirPlace) {
  const PlaceOf place = [](std::size_t at) { return "at " + std::to_string(at) + ": "; };
  const std::pair<const char*, const char*> kWrong[] = {
      {"Pad(2), RandomCorp(28)", "at 8: transform: unknown"},
      {"Pad(2), Resize(9, bicubc)", "at 18: Resize: \"bicubc\""},
      {"Pad(2), Resize(9, mode = bicubic)", "at 25: Resize: mode is"},
      {"Pad(2), Resize(9, mood = square)", "at 18: Resize: parameter"},
      {"Pad(2), RandomCrop()", "at 8: RandomCrop: size is not given"},
      {"Pad(2), RandomCrop(0)", "at 8: RandomCrop(0): size is 0"},
      {"Pad(2", "at 5: Pad: its parenthesis"}};
  for (const auto& [text, words] : kWrong)
    EXPECT_TRUE(throws<InvalidArgument>([&, text = text] { parse_transforms(text, place); }, words))
        << text;
}

// docs/transforms.md shows the parameters that texts take, under their names.
TEST(ParseTransforms, TheManualNamesEveryParameter) {
  const std::string manual = read_text(TR_SOURCE_FOLDER "/docs/transforms.md");
  for (const TransformForm& form : transform_forms()) {
    std::string shown = "`" + std::string(form.name) + "(";
    for (const TransformParameter& parameter : form.parameters)
      shown += (shown.back() == '(' ? "" : ", ") + std::string(parameter.name);
    EXPECT_NE(manual.find(shown + ")`"), std::string::npos)
        << "docs/transforms.md does not name " << shown << ")`";
  }
}

}  // namespace
}  // namespace tr::zoo
