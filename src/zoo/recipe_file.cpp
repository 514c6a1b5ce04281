// SPDX-License-Identifier: Apache-2.0
#include "zoo/recipe_file.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/input_file.h"
#include "core/nearest_name.h"
#include "renaissance/zoo/zoo.h"
#include "zoo/parse_transforms.h"
#include "zoo/recipe_layers.h"
#include "zoo/recipe_model.h"

namespace tr::zoo {

namespace {

constexpr std::uint64_t kMostBytes = 4 << 20;  // of a recipe

/// Entries of a table in the order of the file, which decides between keys that overlap.
std::vector<std::pair<const toml::key*, const toml::node*>> in_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    const toml::source_position &x = a.first->source().begin, &y = b.first->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  return entries;
}

/// A value in the words of --set.
std::string text_of(const toml::node& node, const std::string& key) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* integer = node.as_integer()) return std::to_string(integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  std::string list;
  for (const toml::node& item :
       as<toml::array>(node, key, "a text, number, bool or a list of them")) {
    if (item.is_array()) fail_at(item.source(), fmt::format("{} is a list of lists", key));
    const std::string part = text_of(item, key);
    if (part.find(',') != std::string::npos)
      fail_at(item.source(), fmt::format("{}: \"{}\" has a comma inside a list", key, part));
    list += (list.empty() ? "" : ",") + part;
  }
  return list;
}

/// Places in a text of the file; of one with escapes or several lines only its beginning is known.
PlaceOf places_in(const toml::source_region& region, std::string_view text) {
  const auto count = [](std::string_view part) {  // of characters, as columns are counted
    return std::count_if(part.begin(), part.end(), [](char c) { return (c & 0xC0) != 0x80; });
  };
  const bool is_plain = region.begin.line == region.end.line &&
                        region.end.column - region.begin.column == count(text) + 2;
  return [=](std::size_t offset) {
    toml::source_region place = region;
    if (is_plain) place.begin.column += toml::source_index(1 + count(text.substr(0, offset)));
    return place_of(place) + ": ";
  };
}

std::vector<Transform> read_transforms(const toml::node& node, const std::string& key) {
  std::vector<Transform> steps;
  for (const toml::node& item : as<toml::array>(node, key, "a list of transforms")) {
    const std::string& text = as<std::string>(item, key, "texts like \"RandomCrop(28)\"");
    for (Transform& step : parse_transforms(text, places_in(item.source(), text)))
      steps.push_back(std::move(step));
    at(item.source(), [&] { TransformChain{steps, {}}.validate(); });
  }
  return steps;
}

double read_number(const toml::node& node, std::string_view what) {
  const auto value = node.value<double>();
  if (!value)
    fail_at(node.source(), fmt::format("{} is {}, expected a number", what, kind_of(node)));
  return *value;
}

std::vector<float> read_numbers(const toml::node& node, std::string_view what) {
  std::vector<float> values;
  for (const toml::node& item : as<toml::array>(node, what, "a list of numbers"))
    values.push_back(float(read_number(item, what)));
  return values;
}

std::vector<float> read_floats(const toml::table& table, const char* key) {
  const toml::node* node = table.get(key);
  if (node == nullptr) fail_at(table.source(), fmt::format("normalization has no {}", key));
  return read_numbers(*node, key);
}

void read_normalization(const toml::table& table, PreprocessorSetting& data) {
  constexpr std::string_view kKeys[] = {"mean", "std"};
  check_keys(table, "normalization", kKeys);
  std::vector<float> mean = read_floats(table, "mean"), std = read_floats(table, "std");
  at(table.source(), [&] { data.normalization(std::move(mean), std::move(std)); });
}

class Reader {
 public:
  explicit Reader(RecipeFile& file) : file_(file) {}

  void read(const toml::table& root) {
    // Losses first: keys of theirs need one to stand in.
    if (const toml::node* loss = root.get("loss")) read_loss(*loss);
    for (const auto& [key, node] : in_order(root)) read_entry(*key, *node);
  }

 private:
  void read_entry(const toml::key& key, const toml::node& node) {
    const std::string name(key.str());
    if (name == "loss") return;
    if (name == "summary") {
      file_.summary = as<std::string>(node, name, "a sentence");
    } else if (name == "model") {
      RecipeModel model = read_model(as<toml::table>(node, name, "a table"));
      file_.model = model.blueprint;
      file_.input = model.input;
    } else if (name == "train_transforms") {
      file_.config.preprocessor.set_train_transforms(read_transforms(node, name));
    } else if (name == "val_transforms") {
      file_.config.preprocessor.set_val_transforms(read_transforms(node, name));
    } else if (name == "normalization" && node.is_table()) {
      read_normalization(*node.as_table(), file_.config.preprocessor);
    } else {
      read_key(name, key, node);
    }
  }

  /// A configuration key; tables are the dots of its name.
  void read_key(const std::string& name, const toml::key& key, const toml::node& node) {
    const auto keys = config_keys();
    if (const toml::table* table = node.as_table()) {
      const bool known = std::any_of(keys.begin(), keys.end(), [&](const ConfigKey& k) {
        return k.name.starts_with(name + ".");
      });
      if (!known) fail_at(key.source(), unknown_name_message("key", name, known_names()));
      for (const auto& [inner, value] : in_order(*table))
        read_key(name + "." + std::string(inner->str()), *inner, *value);
      return;
    }
    if (std::none_of(keys.begin(), keys.end(), [&](const ConfigKey& k) { return k.name == name; }))
      fail_at(key.source(), unknown_name_message("key", name, known_names()));
    const std::string text = text_of(node, name);
    at(node.source(), [&] { set_config(file_.config, name, text); });
    file_.keys.push_back({name, text});
  }

  static std::vector<std::string> known_names() {
    std::vector<std::string> names = {"model", "loss", "train_transforms", "val_transforms",
                                      "summary"};
    for (const ConfigKey& key : config_keys()) names.emplace_back(key.name);
    return names;
  }

  void read_loss(const toml::node& node) {
    Loss loss;
    if (const toml::array* terms = node.as_array()) {
      for (const toml::node& term : *terms) loss.terms.push_back(read_term(term));
    } else {
      loss.terms.push_back(read_term(node));
    }
    at(node.source(), [&] { loss.validate(); });
    file_.config.train.loss = std::move(loss);
    file_.has_loss = true;
  }

  static LossTerm read_term(const toml::node& node) {
    const toml::table* table = node.as_table();
    const toml::node* kind = table != nullptr ? table->get("kind") : &node;
    if (kind == nullptr) fail_at(node.source(), "the loss has no kind");
    LossTerm term = term_of_kind(*kind);
    if (table == nullptr) return term;
    for (const auto& [key, value] : *table) {
      if (key.str() != "kind") read_option(key, value, term);
    }
    return term;
  }

  static LossTerm term_of_kind(const toml::node& node) {
    const std::string& name = as<std::string>(node, "loss", "the name of a loss");
    LossTerm term;
    term.kind = at(node.source(), [&] { return loss_kind_from_name(name); });
    if (term.kind != LossTerm::Kind::CROSS_ENTROPY) term.field = "target";
    return term;
  }

  static void read_option(const toml::key& key, const toml::node& node, LossTerm& term) {
    const std::string name(key.str());
    const auto number = [&] { return read_number(node, name); };
    const auto integer = [&] { return as<std::int64_t>(node, name, "an integer"); };
    const auto index = [&] {
      const std::int64_t value = integer();
      if (!std::in_range<int>(value))
        fail_at(node.source(),
                fmt::format("{} is {}, expected the index of an output", name, value));
      return int(value);
    };
    const std::pair<std::string_view, std::function<void()>> options[] = {
        {"field", [&] { term.field = as<std::string>(node, name, "a field of the data"); }},
        {"output", [&] { term.output = index(); }},
        {"target_output", [&] { term.target_output = index(); }},
        {"target_value", [&] { term.target_value = number(); }},
        {"weight", [&] { term.weight = number(); }},
        {"label_smoothing", [&] { term.label_smoothing = float(number()); }},
        {"class_weights", [&] { term.class_weights = read_numbers(node, name); }},
        {"ignore_index", [&] { term.ignore_index = integer(); }},
        {"pos_weight", [&] { term.pos_weight = read_numbers(node, name); }},
        {"delta", [&] { term.delta = number(); }},
        {"alpha", [&] { term.alpha = number(); }},
        {"gamma", [&] { term.gamma = number(); }},
        {"logits", [&] { term.logits = as<bool>(node, name, "a bool"); }},
        {"temperature", [&] { term.temperature = number(); }}};
    std::vector<std::string> known = {"kind"};
    for (const auto& [option, read] : options) {
      if (option == name) return read();
      known.emplace_back(option);
    }
    fail_at(key.source(), unknown_name_message("loss: key", name, known));
  }

  RecipeFile& file_;
};

}  // namespace

bool RecipeFile::is_place_of_data(std::string_view key) {
  return key.starts_with("dataset.") || key == "download";
}

void RecipeFile::apply(Session& session, DeepLearningTask& task) const {
  session.global = config.global;
  session.preprocessor = config.preprocessor;
  if (model) task.model(*model);
  if (has_loss) task.loss(config.train.loss);
  for (const auto& [key, value] : keys) {
    if (!is_place_of_data(key)) task.set(key, value);
  }
}

RecipeFile parse_recipe(std::string_view text, const std::string& name) {
  RecipeFile file;
  file.path = name;
  try {
    const toml::table root = toml::parse(text, name);
    Reader(file).read(root);
  } catch (const toml::parse_error& error) {
    fail_at(error.source(), std::string(error.description()));
  }
  return file;
}

RecipeFile read_recipe(const std::string& path) {
  return parse_recipe(read_text(path, kMostBytes), path);
}

bool is_recipe_file(std::string_view name) { return name.ends_with(".toml"); }

void apply_recipe_file(const std::string& path, Session& session, DeepLearningTask& task) {
  const RecipeFile file = read_recipe(path);
  TR_CHECK(file.model, "{}: the recipe has no table [model]", path);
  file.apply(session, task);
}

}  // namespace tr::zoo
