// SPDX-License-Identifier: Apache-2.0
#include "zoo/parse_transforms.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>

#include "core/nearest_name.h"
#include "task/parse.h"
#include "zoo/transform_forms.h"

namespace tr::zoo {

namespace {

/// What stands behind a comma, a parenthesis or a name: a word, or a list of them.
struct Value {
  std::size_t at = 0;
  std::vector<std::string_view> words;
  bool is_list = false;

  /// For messages.
  std::string text() const {
    return is_list ? fmt::format("[{}]", fmt::join(words, ", ")) : std::string(words.front());
  }
};

std::optional<float> number_of(std::string_view word) {
  if (const auto number = parse_number<float>(word)) return number;
  const auto wide = parse_number<double>(word);  // 1e-60 is a number, 0 as a float
  if (wide && std::abs(*wide) < 1) return float(*wide);
  return std::nullopt;
}

/// One that a parameter may still refuse: "1e308" is no word.
bool is_number(std::string_view word) {
  return number_of(word).has_value() || is_out_of_range<float>(word);
}

std::optional<int> whole_number_of(std::string_view word) {
  if (const auto whole = parse_number<int>(word)) return whole;
  const auto number = parse_number<double>(word);  // 28.0
  if (!number || *number != std::floor(*number) ||
      std::abs(*number) > double(std::numeric_limits<int>::max()))
    return std::nullopt;
  return int(*number);
}

bool is_word(std::string_view word, std::string_view known) {
  return std::equal(word.begin(), word.end(), known.begin(), known.end(), [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) == b;
  });
}

/// Reads the values of one transform into it.
class ValueReader {
 public:
  ValueReader(const TransformForm& form, TextReader& in)
      : form_(form), in_(in), transform_(form.initial), given_(form.parameters.size()) {}

  Transform read(std::size_t at) {
    if (in_.take('(') && !in_.take(')')) {
      do {
        read_argument();
      } while (in_.take(','));
      if (in_.ends()) in_.fail(in_.at(), "{}: its parenthesis is not closed", form_.name);
      if (!in_.take(')'))
        in_.fail(in_.at(), "{}: \"{}\" stands where a comma or a parenthesis was expected",
                 form_.name, in_.rest());
    }
    for (std::size_t i = 0; i < form_.num_required; ++i) {
      if (!given_[i])
        in_.fail(at, "{}: {} is not given, expected {}", form_.name, form_.parameters[i].name,
                 form_.signature());
    }
    return transform_;
  }

 private:
  Value read_value() {
    Value value{.at = in_.at()};
    value.is_list = in_.take('[');
    do {
      value.words.push_back(in_.word());
    } while (value.is_list && in_.take(','));
    if (value.is_list && !in_.take(']'))
      in_.fail(in_.at(), "{}: the list {} is not closed", form_.name, value.text());
    return value;
  }

  void read_argument() {
    const Value value = read_value();
    if (!value.is_list && in_.take('=')) {
      named_ = true;
      const std::size_t index = parameter_of(value);
      set(index, read_value());
    } else if (value.is_list || is_number(value.words.front())) {
      set_next(value);
    } else {
      set(parameter_with_word(value), value);
    }
  }

  std::size_t parameter_of(const Value& name) const {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < form_.parameters.size(); ++i) {
      if (form_.parameters[i].name == name.words.front()) return i;
      known.emplace_back(form_.parameters[i].name);
    }
    in_.fail(
        name.at, "{}",
        unknown_name_message(fmt::format("{}: parameter", form_.name), name.words.front(), known));
  }

  /// The parameter that has this word among its own.
  std::size_t parameter_with_word(const Value& value) {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < form_.parameters.size(); ++i) {
      for (const std::string_view word : words_of(form_.parameters[i].target(transform_))) {
        if (is_word(value.words.front(), word)) return i;
        known.emplace_back(word);
      }
    }
    if (known.empty())
      in_.fail(value.at, "{}: \"{}\" is no number, expected {}", form_.name, value.text(),
               form_.signature());
    in_.fail(value.at, "{}: \"{}\" is no number and none of {}", form_.name, value.text(),
             fmt::join(known, ", "));
  }

  /// A number or list without a name.
  void set_next(const Value& value) {
    if (named_)
      in_.fail(value.at, "{}: {} has no name, but stands behind a value that has one", form_.name,
               value.text());
    if (next_ == form_.parameters.size())
      in_.fail(value.at, "{}: {} is a value too many, expected {}", form_.name, value.text(),
               form_.signature());
    const std::size_t index = next_;
    Range* const* range = nullptr;
    const Target target = form_.parameters[index].target(transform_);
    if (!value.is_list) range = std::get_if<Range*>(&target);
    if (range != nullptr) {  // one of its two ends
      read_word(index, value, is_half_ ? (*range)->high : (*range)->low);
      given_[index] = true;
      next_ += is_half_ ? 1 : 0;
      is_half_ = !is_half_;
      return;
    }
    if (is_half_)
      in_.fail(value.at, "{}: {} stands where the end of {} was expected", form_.name, value.text(),
               form_.parameters[index].name);
    ++next_;
    set(index, value);
  }

  void set(std::size_t index, const Value& value) {
    if (given_[index])
      in_.fail(value.at, "{}: {} is given twice", form_.name, form_.parameters[index].name);
    given_[index] = true;
    std::visit(
        [&](auto* out) {
          if constexpr (std::is_same_v<decltype(out), Range*>) {
            if (!value.is_list || value.words.size() != 2) refuse(index, value, "[low, high]");
            read_word(index, {value.at, {value.words[0]}}, out->low);
            read_word(index, {value.at, {value.words[1]}}, out->high);
          } else if constexpr (std::is_same_v<decltype(out), ImageSize*>) {
            if (value.words.size() > 2 || (value.is_list && value.words.size() == 1))
              refuse(index, value, "a number of pixels or [height, width]");
            read_word(index, {value.at, {value.words.front()}}, out->height);
            read_word(index, {value.at, {value.words.back()}}, out->width);
          } else {
            if (value.is_list) refuse(index, value, "a value that is no list");
            read_word(index, value, *out);
          }
        },
        form_.parameters[index].target(transform_));
  }

  [[noreturn]] void refuse(std::size_t index, const Value& value, std::string_view expected) const {
    in_.fail(value.at, "{}: {} is {}, expected {}", form_.name, form_.parameters[index].name,
             value.text(), expected);
  }

  void read_word(std::size_t index, const Value& value, float& out) const {
    const std::string_view word = value.words.front();
    const auto number = number_of(word);
    if (!number)
      refuse(index, value, is_out_of_range<float>(word) ? "what fp32 holds" : "a number");
    out = *number;
  }
  void read_word(std::size_t index, const Value& value, int& out) const {
    const auto number = whole_number_of(value.words.front());
    if (!number) refuse(index, value, "a whole number");
    out = *number;
  }
  void read_word(std::size_t index, const Value& value, bool& out) const {
    const auto flag = parse_bool(value.words.front());
    if (!flag) refuse(index, value, "true or false");
    out = *flag;
  }
  template <typename E>
  void read_word(std::size_t index, const Value& value, E& out) const {
    const auto words = words_of(&out);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!is_word(value.words.front(), words[i])) continue;
      out = E(i);
      return;
    }
    refuse(index, value, fmt::format("one of {}", fmt::join(words, ", ")));
  }

  const TransformForm& form_;
  TextReader& in_;
  Transform transform_;
  std::vector<bool> given_;
  std::size_t next_ = 0;  // parameter of the next value without a name
  bool is_half_ = false;  // of whose range the first number was read
  bool named_ = false;    // a value with a name was read
};

Transform parse_one(TextReader& in) {
  const std::size_t at = in.at();
  const std::string_view name = in.word();
  std::vector<std::string> names;
  for (const TransformForm& form : transform_forms()) {
    names.emplace_back(form.name);
    if (form.name != name) continue;
    Transform transform = ValueReader(form, in).read(at);
    try {
      TransformChain{{transform}, {}}.validate();
    } catch (const InvalidArgument& error) {
      in.fail(at, "{}", error.what());
    }
    return transform;
  }
  in.fail(at, "{}", unknown_name_message("transform", name, names));
}

}  // namespace

std::vector<Transform> parse_transforms(std::string_view text, const PlaceOf& place) {
  std::vector<Transform> transforms;
  TextReader in(text, place);
  if (in.ends()) return transforms;
  do {
    transforms.push_back(parse_one(in));
  } while (in.take(','));
  if (!in.ends())
    in.fail(in.at(), "transforms: \"{}\" stands where a comma or the end was expected", in.rest());
  return transforms;
}

std::vector<std::string> transform_signatures() {
  std::vector<std::string> all;
  for (const TransformForm& form : transform_forms()) all.push_back(form.signature());
  return all;
}

}  // namespace tr::zoo
