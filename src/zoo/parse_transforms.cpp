// SPDX-License-Identifier: Apache-2.0
#include "zoo/parse_transforms.h"

#include <cmath>
#include <functional>

#include "core/check.h"
#include "core/nearest_name.h"
#include "task/parse.h"

namespace tr::zoo {

namespace {

/// The numbers of one transform.
class Numbers {
 public:
  Numbers(std::string who, std::vector<float> values)
      : who_(std::move(who)), values_(std::move(values)) {}
  std::size_t size() const { return values_.size(); }
  /// Number `i`, or what stands for it if it is left out.
  float operator()(std::size_t i, float otherwise) const {
    return i < values_.size() ? values_[i] : otherwise;
  }
  int whole(std::size_t i, int otherwise) const {
    const float value = (*this)(i, float(otherwise));
    TR_CHECK(value == std::floor(value), "{}: number {} is {}, expected a whole number", who_,
             i + 1, value);
    return int(value);
  }

 private:
  std::string who_;
  std::vector<float> values_;
};

struct Entry {
  std::string name;
  std::size_t least, most;  // numbers
  std::function<Transform(const Numbers&)> make;
};

template <typename T>
Transform resized_crop(const Numbers& n) {
  return T(n.whole(0, 224), n(1, 0.08f), n(2, 1.0f), n(3, 0.75f), n(4, 4.0f / 3));
}

/// Numbers in the order of the constructors' parameters.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
      {"Pad", 1, 2, [](const Numbers& n) { return Pad(n.whole(0, 0), n.whole(1, 0)); }},
      {"RandomCrop", 1, 1, [](const Numbers& n) { return RandomCrop(n.whole(0, 0)); }},
      {"CenterCrop", 0, 1, [](const Numbers& n) { return CenterCrop(n.whole(0, 224)); }},
      {"Resize", 0, 1, [](const Numbers& n) { return Resize(n.whole(0, 224)); }},
      {"RandomResizedCrop", 0, 5, resized_crop<RandomResizedCrop>},
      {"FastRandomResizedCrop", 0, 5, resized_crop<FastRandomResizedCrop>},
      {"RandomHorizontalFlip", 0, 1,
       [](const Numbers& n) { return RandomHorizontalFlip(n(0, 0.5f)); }},
      {"RandomVerticalFlip", 0, 1, [](const Numbers& n) { return RandomVerticalFlip(n(0, 0.5f)); }},
      {"ColorJitter", 0, 4,
       [](const Numbers& n) { return ColorJitter(n(0, 0), n(1, 0), n(2, 0), n(3, 0)); }},
      {"RandomGrayscale", 0, 1, [](const Numbers& n) { return RandomGrayscale(n(0, 0.1f)); }},
      {"RandomAutocontrast", 0, 1, [](const Numbers& n) { return RandomAutocontrast(n(0, 0.5f)); }},
      {"RandomRotation", 0, 2,
       [](const Numbers& n) { return RandomRotation(n(0, 30.0f), n.whole(1, 0)); }},
      {"RandomScale", 2, 2, [](const Numbers& n) { return RandomScale(n(0, 1), n(1, 1)); }},
      {"RandomAffine", 1, 9,
       [](const Numbers& n) {
         return RandomAffine(n(0, 0), {n(1, 0), n(2, 0)}, {n(3, 1), n(4, 1)}, {n(5, 0), n(6, 0)},
                             {n(7, 0), n(8, 0)});
       }},
      {"GaussianBlur", 0, 3,
       [](const Numbers& n) { return GaussianBlur(n(0, 0.1f), n(1, 2.0f), n.whole(2, 0)); }},
      {"GaussianNoise", 0, 2, [](const Numbers& n) { return GaussianNoise(n(0, 0), n(1, 25.5f)); }},
      {"RandAugment", 0, 4,
       [](const Numbers& n) {
         return RandAugment(n.whole(0, 2), n.whole(1, 9), n.whole(2, 31), n.whole(3, 0));
       }},
      {"TrivialAugment", 0, 2,
       [](const Numbers& n) { return TrivialAugment(n.whole(0, 31), n.whole(1, 0)); }},
      {"RandomErasing", 0, 5,
       [](const Numbers& n) {
         return RandomErasing(n(0, 0.5f), {n(1, 0.02f), n(2, 0.33f)}, {n(3, 0.3f), n(4, 3.3f)});
       }},
      {"Mixup", 0, 2, [](const Numbers& n) { return Mixup(n(0, 1.0f), n(1, 1.0f)); }},
      {"CutMix", 0, 2, [](const Numbers& n) { return CutMix(n(0, 1.0f), n(1, 1.0f)); }}};
  return kEntries;
}

const Entry& entry_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.name == name) return entry;
    names.push_back(entry.name);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("transform", name, names));
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// Parts between commas that stand outside parentheses.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  TR_CHECK(depth == 0, "transforms: \"{}\" has parentheses without their partners", text);
  return parts;
}

Transform parse_one(const std::string& part) {
  const auto open = part.find('(');
  const Entry& entry = entry_of(trimmed(part.substr(0, open)));
  std::vector<float> values;
  if (open != std::string::npos) {
    TR_CHECK(part.back() == ')', "transforms: \"{}\" does not end with its parenthesis", part);
    const std::string inside = trimmed(part.substr(open + 1, part.size() - open - 2));
    if (!inside.empty()) {
      for (const std::string& word : split(inside)) {
        const auto value = parse_number<double>(trimmed(word));
        TR_CHECK(value && std::abs(*value) <= 1e6, "{}: \"{}\" is no number within 1e6", entry.name,
                 trimmed(word));
        values.push_back(float(*value));
      }
    }
  }
  TR_CHECK(values.size() >= entry.least, "{}: {} numbers are given, expected at least {}",
           entry.name, values.size(), entry.least);
  TR_CHECK(values.size() <= entry.most, "{}: {} numbers are given, expected at most {}", entry.name,
           values.size(), entry.most);
  return entry.make(Numbers(entry.name, std::move(values)));
}

}  // namespace

std::vector<Transform> parse_transforms(const std::string& text) {
  std::vector<Transform> transforms;
  if (trimmed(text).empty()) return transforms;
  for (const std::string& part : split(text)) transforms.push_back(parse_one(trimmed(part)));
  return transforms;
}

}  // namespace tr::zoo
