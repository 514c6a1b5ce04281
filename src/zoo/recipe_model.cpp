// SPDX-License-Identifier: Apache-2.0
#include "zoo/recipe_model.h"

#include <map>
#include <set>

#include "core/nearest_name.h"
#include "graph/blueprint_node.h"
#include "renaissance/zoo/zoo.h"
#include "zoo/recipe_layers.h"

namespace tr::zoo {

namespace {

constexpr int kMostLayers = 5000;  // of a model, repeats counted

constexpr std::string_view kModelKeys[] = {"zoo", "input", "inputs", "outputs", "layers"};
constexpr std::string_view kListKeys[] = {"seq", "name", "times", "inputs"};
constexpr std::string_view kResidualKeys[] = {"residual", "shortcut", "name", "times", "inputs"};
constexpr std::string_view kSharesKeys[] = {"shares", "name", "inputs"};

std::vector<std::string> read_names(const toml::node& node, const char* what) {
  std::vector<std::string> names;
  for (const toml::node& item : as<toml::array>(node, what, "a list of names"))
    names.push_back(as<std::string>(item, what, "names"));
  if (names.empty()) fail_at(node.source(), fmt::format("{} is empty", what));
  return names;
}

/// A part of a model and how many layers it has.
struct Part {
  BluePrint blueprint;
  int layers = 0;
};

class ModelReader {
 public:
  BluePrint read(const toml::table& table) {
    const toml::array& layers = list_of(*table.get("layers"), "layers");
    const bool is_graph = table.contains("inputs") || table.contains("outputs") ||
                          std::any_of(layers.begin(), layers.end(), [](const toml::node& item) {
                            const toml::table* t = item.as_table();
                            return t && (t->contains("inputs") || t->contains("shares"));
                          });
    if (is_graph) return read_graph(table, layers);
    return read_list(layers, "layers").blueprint;
  }

 private:
  static const toml::array& list_of(const toml::node& node, const char* what) {
    const toml::array& list = as<toml::array>(node, what, "a list of layers");
    if (list.empty()) fail_at(node.source(), fmt::format("{} is empty, expected layers", what));
    return list;
  }

  Part read_list(const toml::node& node, const char* what) {
    std::vector<BluePrint> parts;
    int count = 0;
    for (const toml::node& item : list_of(node, what)) {
      const toml::table& table = as<toml::table>(item, "a layer", "a table {op = ...}");
      for (const char* key : {"inputs", "shares"}) {
        if (const toml::node* found = table.get(key))
          fail_at(found->source(), fmt::format("{} stands inside {}, expected in the model's own "
                                               "list of layers",
                                               key, what));
      }
      const Part part = read_part(table, 1);
      count = counted(table, count, part.layers);
      parts.push_back(part.blueprint);
    }
    return {at(node.source(), [&] { return seq(std::move(parts)); }), count};
  }

  static int counted(const toml::table& table, std::int64_t before, std::int64_t more) {
    if (before + more > kMostLayers) {
      fail_at(table.source(),
              fmt::format("the model has more than {} layers from here on", kMostLayers));
    }
    return int(before + more);
  }

  Part read_part(const toml::table& table, int num_inputs) {
    Part part = read_kind(table, num_inputs);
    if (const toml::node* times = table.get("times")) {
      const std::int64_t n =
          as<std::int64_t>(*times, "times", "how often the layer stands in a row");
      if (n < 1 || n > kMostLayers)
        fail_at(times->source(), fmt::format("times is {}, expected 1 to {}", n, kMostLayers));
      part.layers = counted(table, 0, n * part.layers);
      part.blueprint = at(times->source(), [&] { return repeat(part.blueprint, int(n)); });
    }
    if (const toml::node* name = table.get("name")) {
      const std::string& text = as<std::string>(*name, "name", "a name");
      part.blueprint = at(name->source(), [&] { return part.blueprint.named(text); });
    }
    return part;
  }

  Part read_kind(const toml::table& table, int num_inputs) {
    if (table.contains("op")) return {read_op(table, num_inputs), 1};
    if (const toml::node* row = table.get("seq")) {
      check_keys(table, "seq", kListKeys);
      return read_list(*row, "seq");
    }
    if (const toml::node* body = table.get("residual")) {
      check_keys(table, "residual", kResidualKeys);
      Part part = read_list(*body, "residual");
      part.layers = counted(table, part.layers, 1);
      if (!table.contains("shortcut")) return {residual(part.blueprint), part.layers};
      const Part shortcut = read_list(*table.get("shortcut"), "shortcut");
      return {residual(part.blueprint, shortcut.blueprint),
              counted(table, part.layers, shortcut.layers)};
    }
    fail_at(table.source(), "a layer has neither op nor seq nor residual, expected one of them");
  }

  BluePrint read_graph(const toml::table& table, const toml::array& layers) {
    std::vector<Value> inputs, outputs, order;
    const toml::node* fields = table.get("inputs");
    for (const std::string& field :
         fields != nullptr ? read_names(*fields, "inputs") : std::vector<std::string>{"image"}) {
      inputs.push_back(input(field));
      add_value(fields != nullptr ? *fields : table, field, inputs.back());
    }
    find_shared(layers);
    std::string last;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const toml::table& item = as<toml::table>(*layers.get(i), "a layer", "a table {op = ...}");
      const std::vector<Value> from =
          values_before(item, order.empty() ? inputs.front() : order.back());
      last = item.contains("name") ? as<std::string>(*item.get("name"), "name", "a name")
                                   : std::to_string(i);
      const BluePrint part = part_of(item, int(from.size()), last);
      order.push_back(at(item.source(), [&] { return part.apply_one(from); }));
      add_value(item, last, order.back());
    }
    const toml::node* ends = table.get("outputs");
    if (ends == nullptr) {
      outputs.push_back(order.back());
    } else {
      for (const std::string& name : read_names(*ends, "outputs"))
        outputs.push_back(value_named(*ends, name));
    }
    return at(table.source(), [&] { return model_in_order(inputs, outputs, order); });
  }

  /// Names of layers whose parameters others use.
  void find_shared(const toml::array& layers) {
    for (const toml::node& item : layers) {
      const toml::table* table = item.as_table();
      const toml::node* shares = table != nullptr ? table->get("shares") : nullptr;
      if (shares != nullptr)
        shared_names_.insert(as<std::string>(*shares, "shares", "the name of a layer"));
    }
  }

  BluePrint part_of(const toml::table& table, int num_inputs, const std::string& name) {
    if (const toml::node* shares = table.get("shares")) {
      check_keys(table, "shares", kSharesKeys);
      const std::string& wanted = as<std::string>(*shares, "shares", "the name of a layer");
      const auto found = shared_.find(wanted);
      if (found == shared_.end())
        fail_at(shares->source(),
                fmt::format("shares names \"{}\", expected a layer above", wanted));
      num_layers_ = counted(table, num_layers_, 1);
      return found->second.named(name);
    }
    Part part = read_part(table, num_inputs);
    num_layers_ = counted(table, num_layers_, part.layers);
    if (!shared_names_.contains(name))
      return at(table.source(), [&] { return part.blueprint.named(name); });
    const BluePrint whole = shared(part.blueprint);
    shared_.emplace(name, whole);
    return at(table.source(), [&] { return whole.named(name); });
  }

  std::vector<Value> values_before(const toml::table& table, const Value& last) {
    const toml::node* names = table.get("inputs");
    if (names == nullptr) return {last};
    std::vector<Value> values;
    for (const std::string& name : read_names(*names, "inputs"))
      values.push_back(value_named(*names, name));
    return values;
  }

  void add_value(const toml::node& node, const std::string& name, const Value& value) {
    if (!values_.emplace(name, value).second)
      fail_at(node.source(),
              fmt::format("the name \"{}\" is taken by a layer or input above", name));
  }

  Value value_named(const toml::node& node, const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [other, value] : values_) known.push_back(other);
    fail_at(node.source(), unknown_name_message("layer or input above", name, known));
  }

  std::map<std::string, Value> values_;
  std::set<std::string> shared_names_;
  std::map<std::string, BluePrint> shared_;
  int num_layers_ = 0;
};

std::optional<Shape> read_shape(const toml::table& table) {
  const toml::node* node = table.get("input");
  if (node == nullptr) return std::nullopt;
  std::vector<std::int64_t> dims;
  for (const toml::node& item : as<toml::array>(*node, "input", "[height, width, channels]"))
    dims.push_back(as<std::int64_t>(item, "input", "integers"));
  return at(node->source(), [&] {
    TR_CHECK(dims.size() == 3, "input has {} numbers, expected height, width, channels",
             dims.size());
    for (const std::int64_t dim : dims) TR_CHECK(dim >= 1, "input has {}, expected above 0", dim);
    return Shape(dims);
  });
}

}  // namespace

RecipeModel read_model(const toml::table& table) {
  check_keys(table, "model", kModelKeys);
  const std::optional<Shape> input = read_shape(table);
  const toml::node *zoo = table.get("zoo"), *layers = table.get("layers");
  if ((zoo == nullptr) == (layers == nullptr))
    fail_at(table.source(), "model has zoo and layers, or none of them; expected one");
  if (zoo == nullptr) return {ModelReader().read(table), input};
  for (const char* key : {"inputs", "outputs"}) {
    if (const toml::node* found = table.get(key))
      fail_at(found->source(), fmt::format("{} belongs to a model with layers", key));
  }
  const std::string& name = as<std::string>(*zoo, "zoo", "the name of a model");
  const Model model = at(zoo->source(), [&] { return make_model(name); });
  return {model.blueprint, input ? *input : model.input};
}

}  // namespace tr::zoo
