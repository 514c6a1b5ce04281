// SPDX-License-Identifier: Apache-2.0
#include "zoo/transform_forms.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "data/transforms/words.h"

namespace tr::zoo {

namespace {

template <typename T, typename M>
T owner_of(M T::*);

/// P<&Pad::fill>("fill")
template <auto kMember>
TransformParameter p(std::string_view name) {
  using Owner = decltype(owner_of(kMember));
  return {name, [](Transform& t) -> Target { return &(std::get<Owner>(t).*kMember); }};
}

template <typename T>
std::vector<TransformParameter> region() {
  return {p<&T::size>("size"), p<&T::scale>("scale"), p<&T::ratio>("ratio")};
}

std::vector<TransformParameter> resized_crop() {
  std::vector<TransformParameter> all = region<RandomResizedCrop>();
  all.push_back(p<&RandomResizedCrop::interpolation>("interpolation"));
  all.push_back(p<&RandomResizedCrop::antialias>("antialias"));
  return all;
}

// One row a transform; parameters in the order of the constructor's.
std::vector<TransformForm> size_forms() {
  return {{"Pad",
           Pad(0),
           1,
           {p<&Pad::padding>("padding"), p<&Pad::fill>("fill"), p<&Pad::mode>("mode")}},
          {"RandomCrop", RandomCrop(0), 1, {p<&RandomCrop::size>("size")}},
          {"CenterCrop", CenterCrop(), 0, {p<&CenterCrop::size>("size")}},
          {"Resize",
           Resize(),
           0,
           {p<&Resize::size>("size"), p<&Resize::mode>("mode"),
            p<&Resize::interpolation>("interpolation"), p<&Resize::antialias>("antialias")}},
          {"RandomResizedCrop", RandomResizedCrop(), 0, resized_crop()},
          {"FastRandomResizedCrop", FastRandomResizedCrop(), 0, region<FastRandomResizedCrop>()},
          {"RandomHorizontalFlip", RandomHorizontalFlip(), 0, {p<&RandomHorizontalFlip::p>("p")}},
          {"RandomVerticalFlip", RandomVerticalFlip(), 0, {p<&RandomVerticalFlip::p>("p")}}};
}

std::vector<TransformForm> color_forms() {
  return {{"ColorJitter",
           ColorJitter(),
           0,
           {p<&ColorJitter::brightness>("brightness"), p<&ColorJitter::contrast>("contrast"),
            p<&ColorJitter::saturation>("saturation"), p<&ColorJitter::hue>("hue")}},
          {"RandomGrayscale", RandomGrayscale(), 0, {p<&RandomGrayscale::p>("p")}},
          {"RandomAutocontrast", RandomAutocontrast(), 0, {p<&RandomAutocontrast::p>("p")}}};
}

std::vector<TransformForm> warp_forms() {
  return {{"RandomRotation",
           RandomRotation(),
           0,
           {p<&RandomRotation::degrees>("degrees"), p<&RandomRotation::fill>("fill")}},
          {"RandomScale",
           RandomScale(1, 1),
           2,
           {p<&RandomScale::min>("min"), p<&RandomScale::max>("max")}},
          {"RandomAffine",
           RandomAffine(0),
           1,
           {p<&RandomAffine::degrees>("degrees"), p<&RandomAffine::translate>("translate"),
            p<&RandomAffine::scale>("scale"), p<&RandomAffine::shear_x>("shear_x"),
            p<&RandomAffine::shear_y>("shear_y"), p<&RandomAffine::fill>("fill"),
            p<&RandomAffine::interpolation>("interpolation")}}};
}

std::vector<TransformForm> noise_forms() {
  return {{"GaussianBlur",
           GaussianBlur(),
           0,
           {p<&GaussianBlur::sigma_min>("sigma_min"), p<&GaussianBlur::sigma_max>("sigma_max"),
            p<&GaussianBlur::kernel_size>("kernel_size")}},
          {"GaussianNoise",
           GaussianNoise(),
           0,
           {p<&GaussianNoise::mean>("mean"), p<&GaussianNoise::std>("std")}}};
}

std::vector<TransformForm> policy_forms() {
  return {{"RandAugment",
           RandAugment(),
           0,
           {p<&RandAugment::num_ops>("num_ops"), p<&RandAugment::magnitude>("magnitude"),
            p<&RandAugment::num_bins>("num_bins"), p<&RandAugment::fill>("fill")}},
          {"TrivialAugment",
           TrivialAugment(),
           0,
           {p<&TrivialAugment::num_bins>("num_bins"), p<&TrivialAugment::fill>("fill")}}};
}

std::vector<TransformForm> mask_forms() {
  return {{"RandomErasing",
           RandomErasing(),
           0,
           {p<&RandomErasing::p>("p"), p<&RandomErasing::scale>("scale"),
            p<&RandomErasing::ratio>("ratio")}},
          {"Mixup", Mixup(), 0, {p<&Mixup::alpha>("alpha"), p<&Mixup::p>("p")}},
          {"CutMix", CutMix(), 0, {p<&CutMix::alpha>("alpha"), p<&CutMix::p>("p")}}};
}

}  // namespace

std::span<const TransformForm> transform_forms() {
  static const std::vector<TransformForm> kForms = [] {
    std::vector<TransformForm> all;
    for (const auto forms :
         {size_forms, color_forms, warp_forms, noise_forms, policy_forms, mask_forms}) {
      for (TransformForm& form : forms()) all.push_back(std::move(form));
    }
    return all;
  }();
  return kForms;
}

std::span<const std::string_view> words_of(const Target& target) {
  return std::visit(
      [](auto* value) -> std::span<const std::string_view> {
        using M = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_enum_v<M>) {
          return data::Words<M>::kAll;
        } else {
          return {};
        }
      },
      target);
}

std::string text_of(const Target& target) {
  return std::visit(
      [](const auto* value) -> std::string {
        using M = std::remove_cvref_t<decltype(*value)>;
        if constexpr (std::is_enum_v<M>) {
          return std::string(data::word_of(*value));
        } else if constexpr (std::is_same_v<M, Range>) {
          return fmt::format("[{}, {}]", value->low, value->high);
        } else if constexpr (std::is_same_v<M, ImageSize>) {
          return data::text_of(*value);
        } else {
          return fmt::format("{}", *value);
        }
      },
      target);
}

std::string TransformForm::signature() const {
  Transform copy = initial;
  std::string text;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) text += ", ";
    text += parameters[i].name;
    if (i >= num_required) text += "=" + text_of(parameters[i].target(copy));
  }
  return fmt::format("{}({})", name, text);
}

}  // namespace tr::zoo
