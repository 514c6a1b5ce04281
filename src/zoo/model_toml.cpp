// SPDX-License-Identifier: Apache-2.0
// A model's flat plan as the [model] table of a recipe.
#include "core/check.h"
#include "core/format.h"
#include "graph/arch_plan.h"
#include "renaissance/zoo/zoo.h"

namespace tr::zoo {

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", unsigned(byte));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string value_text(const AttrValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
    return fmt::format("[{}]", fmt::join(*list, ", "));
  const std::string number = fmt::format("{}", std::get<double>(value));
  const bool whole = number.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? number + ".0" : number;
}

class Writer {
 public:
  explicit Writer(const ArchPlan& plan) : plan_(plan) {
    for (const ArchInput& in : plan.inputs) names_.push_back(in.field);
    for (const ArchLayer& layer : plan.layers) names_.push_back(layer.name);
  }

  std::string text() const {
    std::string text = fmt::format("# {} layers, {} parameters\n[model]\n", plan_.layers.size(),
                                   plan_.num_params());
    const Shape& sample = plan_.inputs.front().sample_type.shape;
    if (sample.rank() == 3) text += fmt::format("input = {}\n", sample);
    if (plan_.inputs.size() > 1 || plan_.inputs.front().field != "image")
      text += fmt::format("inputs = {}\n", names_of(inputs()));
    if (plan_.outputs.size() > 1 || plan_.outputs.front() != last_value())
      text += fmt::format("outputs = {}\n", names_of(plan_.outputs));
    text += "layers = [\n";
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) text += line(i);
    return text + "]\n";
  }

 private:
  std::vector<int> inputs() const {
    std::vector<int> values;
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i) values.push_back(int(i));
    return values;
  }
  int last_value() const { return int(names_.size()) - 1; }

  std::string names_of(const std::vector<int>& values) const {
    std::vector<std::string> names;
    for (const int value : values) names.push_back(quoted(names_[std::size_t(value)]));
    return fmt::format("[{}]", fmt::join(names, ", "));
  }

  std::string line(std::size_t index) const {
    const ArchLayer& layer = plan_.layers[index];
    TR_CHECK(!layer.name.empty(),
             "the model is one layer without a name ({}); put it into a seq() to write it down",
             layer.op);
    std::string text = fmt::format("  {{name = {}", quoted(layer.name));
    const int owner =
        layer.params.empty() ? int(index) : plan_.params[std::size_t(layer.params.front())].layer;
    if (owner != int(index)) {
      text += fmt::format(", shares = {}", quoted(plan_.layers[std::size_t(owner)].name));
    } else {
      text += fmt::format(", op = {}{}", quoted(layer.op), attributes(layer));
    }
    const int before = index == 0 ? 0 : int(plan_.inputs.size() + index) - 1;
    if (layer.inputs != std::vector<int>{before})
      text += fmt::format(", inputs = {}", names_of(layer.inputs));
    return text + "},\n";
  }

  /// Those that differ from the op's defaults.
  static std::string attributes(const ArchLayer& layer) {
    std::string text;
    for (const AttrSpec& spec : OpRegistry::instance().get(layer.op).attrs) {
      const AttrValue& value = layer.attrs.values().find(spec.name)->second;
      if (spec.required || value != spec.default_value)
        text += fmt::format(", {} = {}", spec.name, value_text(value));
    }
    return text;
  }

  const ArchPlan& plan_;
  std::vector<std::string> names_;  // by value number
};

}  // namespace

std::string model_toml(const BluePrint& model, const Shape& input) {
  const ArchPlan plan = expand(model, {{"image", {input, DType::FP32}}});
  return Writer(plan).text();
}

}  // namespace tr::zoo
