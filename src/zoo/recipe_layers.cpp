// SPDX-License-Identifier: Apache-2.0
#include "zoo/recipe_layers.h"

#include <algorithm>

#include "core/nearest_name.h"
#include "graph/blueprint_node.h"
#include "graph/op_def.h"
#include "graph/unknown_op.h"
#include "renaissance/ops/composite.h"

namespace tr::zoo {

namespace {

using Ints = std::vector<std::int64_t>;

Size2d size_of_pair(const Attrs& attrs, const char* name) {
  const Ints& pair = attrs.ints(name);
  TR_CHECK(pair.size() == 2, "{} has {} numbers, expected 2 (height, width)", name, pair.size());
  return {pair[0], pair[1]};
}

AttrSpec required(const char* name, AttrValue type) { return {name, std::move(type), true, ""}; }
AttrSpec optional(const char* name, AttrValue value) { return {name, std::move(value), false, ""}; }

constexpr std::pair<std::string_view, BlockStyle> kStyles[] = {
    {"RESNET_1_3_1", RESNET_1_3_1}, {"RESNET_1_3_1_DS", RESNET_1_3_1_DS},
    {"RESNET_3_3", RESNET_3_3},     {"RESNET_3_3_DS", RESNET_3_3_DS},
    {"MB_E1_K3", MB_E1_K3},         {"MB_E1_K3_DS", MB_E1_K3_DS},
    {"MB_E6_K3", MB_E6_K3},         {"MB_E6_K3_DS", MB_E6_K3_DS}};

BluePrint make_block(const Attrs& attrs) {
  std::vector<std::string> names;
  for (const auto& [name, style] : kStyles) {
    names.emplace_back(name);
    if (name != attrs.str("style")) continue;
    const std::int64_t mid = attrs.i64("mid_channels"), out = attrs.i64("out_channels");
    const BlockOptions options{attrs.i64("stride")};
    return mid > 0 ? block(mid, out, style, options) : block(out, style, options);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("block: style", attrs.str("style"), names));
}

/// A short form: its attributes, in the manner of an op's, and what they make.
struct Form {
  OpDef def;
  BluePrint (*make)(const Attrs&);
};

Form form(const char* name, std::vector<AttrSpec> attrs, BluePrint (*make)(const Attrs&)) {
  OpDef def;
  def.name = name;
  def.attrs = std::move(attrs);
  return {std::move(def), make};
}

const std::vector<Form>& forms() {
  const std::int64_t n = 0;
  const Ints pair = {1, 1}, none = {0, 0};
  static const std::vector<Form> kForms = {
      form("cbr",
           {required("out_channels", n), required("kernel", pair), optional("stride", pair),
            optional("padding", none), optional("momentum", 0.1), optional("eps", 1e-5)},
           [](const Attrs& a) {
             return cbr(a.i64("out_channels"), size_of_pair(a, "kernel"), size_of_pair(a, "stride"),
                        size_of_pair(a, "padding"), a.f32("momentum"), a.f32("eps"));
           }),
      form("cbrp",
           {required("out_channels", n), required("kernel", pair), optional("stride", pair),
            optional("padding", none), required("pool_kernel", pair), required("pool_stride", pair),
            optional("pool_padding", none)},
           [](const Attrs& a) {
             return cbrp(a.i64("out_channels"), size_of_pair(a, "kernel"),
                         size_of_pair(a, "stride"), size_of_pair(a, "padding"),
                         size_of_pair(a, "pool_kernel"), size_of_pair(a, "pool_stride"),
                         size_of_pair(a, "pool_padding"));
           }),
      form("gap_fc", {required("out_features", n), optional("bias", true)},
           [](const Attrs& a) { return gap_fc(a.i64("out_features"), a.flag("bias")); }),
      form("squeeze_excite", {required("channels", n), required("squeeze_channels", n)},
           [](const Attrs& a) {
             return squeeze_excite(a.i64("channels"), a.i64("squeeze_channels"));
           }),
      form("block",
           {required("style", std::string()), required("out_channels", n),
            optional("mid_channels", n), optional("stride", n)},
           make_block),
      form("mbconv",
           {required("expand", n), required("out_channels", n), optional("stride", std::int64_t{1}),
            optional("shortcut", true)},
           [](const Attrs& a) {
             return mbconv(a.i64("expand"), a.i64("out_channels"), a.i64("stride"),
                           a.flag("shortcut"));
           })};
  return kForms;
}

AttrValue value_of(const toml::node& node, const AttrSpec& spec) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  const auto* same = std::get_if<Ints>(&spec.default_value);
  if (const auto* integer = node.as_integer()) {
    if (same != nullptr) return Ints(same->size(), integer->get());  // kernel = 3: height and width
    return integer->get();
  }
  Ints values;
  for (const toml::node& item : as<toml::array>(node, spec.name, "a value or a list of integers"))
    values.push_back(as<std::int64_t>(item, spec.name, "integers"));
  return values;
}

bool is_layer_key(std::string_view name) {
  return std::find(std::begin(kLayerKeys), std::end(kLayerKeys), name) != std::end(kLayerKeys);
}

/// The attributes among the table's keys, checked against the definition.
Attrs read_attrs(const toml::table& table, const OpDef& def) {
  Attrs attrs;
  for (const auto& [key, node] : table) {
    if (is_layer_key(key.str())) continue;
    const auto spec = std::find_if(def.attrs.begin(), def.attrs.end(),
                                   [&](const AttrSpec& s) { return s.name == key.str(); });
    if (spec == def.attrs.end()) {
      std::vector<std::string> known(std::begin(kLayerKeys), std::end(kLayerKeys));
      for (const AttrSpec& s : def.attrs) known.insert(known.begin(), s.name);
      fail_at(key.source(), unknown_name_message(def.name + ": attribute", key.str(), known));
    }
    Attrs one;
    one.set(spec->name, value_of(node, *spec));
    at(node.source(), [&] { complete_attrs({.name = def.name, .attrs = {*spec}}, one); });
    attrs.set(spec->name, one.values().begin()->second);
  }
  return at(table.source(), [&] { return complete_attrs(def, attrs); });
}

}  // namespace

BluePrint read_op(const toml::table& table, int num_inputs) {
  const toml::node& node = *table.get("op");
  const std::string& name = as<std::string>(node, "op", "the name of an op");
  for (const Form& form : forms()) {
    if (form.def.name != name) continue;
    const Attrs attrs = read_attrs(table, form.def);
    const BluePrint part = at(table.source(), [&] { return form.make(attrs); });
    return placed_at(part, where_of(table.source()));
  }
  const OpDef* def = OpRegistry::instance().find(name);
  if (def == nullptr) {
    std::vector<std::string> shorts;
    for (const Form& form : forms()) shorts.push_back(form.def.name);
    fail_at(node.source(), unknown_op_message(name, std::move(shorts)));
  }
  const Attrs attrs = read_attrs(table, *def);
  return placed_at(layer(name, attrs, num_inputs), where_of(table.source()));
}

void check_keys(const toml::table& table, std::string_view what,
                std::span<const std::string_view> known) {
  for (const auto& [key, node] : table) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    fail_at(key.source(), unknown_name_message(fmt::format("{}: key", what), key.str(), names));
  }
}

}  // namespace tr::zoo
