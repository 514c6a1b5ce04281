// SPDX-License-Identifier: Apache-2.0
// eval and predict: a model with weights from a file.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>

#include "command.h"
#include "core/check.h"
#include "core/env.h"
#include "core/format.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "data/formats/idx.h"
#include "task/config.h"
#include "task/parse.h"
#include "zoo/recipe_file.h"

namespace tr::command {

namespace {

struct ApplyArgs {
  std::string model, weights;
  std::optional<std::string> data;
  std::vector<std::string> files;
  std::vector<std::string> sets;
  JsonOutput json;
};

/// The data of eval and predict are those of the command line, whatever else is set.
void refuse_data_key(const std::string& key, const char* source) {
  TR_CHECK(!key.starts_with("dataset."),
           "{} {}: eval takes its data from --data, predict from FILES", source, key);
}

bool is_recipe(const std::string& name) {
  const std::vector<zoo::Recipe> all = zoo::recipes();
  return std::any_of(all.begin(), all.end(), [&](const auto& r) { return r.name == name; });
}

KeyValue assignment(const std::string& set) {
  const std::size_t equals = set.find('=');
  TR_CHECK(equals != std::string::npos && equals > 0, "--set {}: expected key=value", set);
  return {set.substr(0, equals), set.substr(equals + 1)};
}

/// What the command line and the environment set.
std::vector<KeyValue> settings_of(const ApplyArgs& args) {
  std::vector<KeyValue> pairs;
  for (const std::string& set : args.sets) pairs.push_back(assignment(set));
  for (KeyValue& pair : parse_assignments(read_env("TR_OVERRIDE").value_or(""), "TR_OVERRIDE"))
    pairs.push_back(std::move(pair));
  return pairs;
}

/// Samples of a batch where neither a recipe nor the user says how many.
void set_batch_size(const ApplyArgs& args, Session& session) {
  const GlobalSetting::Values& global = session.global.values();
  bool known = global.global_batch_size > 0 || global.local_batch_size > 0;
  for (const KeyValue& pair : settings_of(args))
    known = known || pair.key == "global_batch_size" || pair.key == "local_batch_size";
  if (!known) session.global.local_batch_size(64);
}

/// Settings under which the model was made: those of its recipe, else ImageNet's.
void configure(const ApplyArgs& args, Session& session, DeepLearningTask& task) {
  if (zoo::is_recipe_file(args.model)) {
    const zoo::RecipeFile file = zoo::read_recipe(args.model);
    TR_CHECK(file.model, "{}: the recipe has no table [model]", args.model);
    file.apply(session, task);
    if (file.input) task.image_shape(*file.input);
    session.preprocessor.set_train_transforms({});
  } else if (is_recipe(args.model)) {
    zoo::apply_recipe(args.model, session, task);
    session.preprocessor.set_train_transforms({});
  } else {
    const zoo::Model model = zoo::make_model(args.model);
    session.global.input_resolution(int(model.input[0]));
    session.preprocessor.dataset("imagenet").normalization(NormMode::IMAGENET);
    session.preprocessor.val_transforms(Resize(256), CenterCrop(int(model.input[0])));
    task.model(model.blueprint);
  }
  set_batch_size(args, session);
  task.load_weights(args.weights);
  for (const std::string& set : args.sets) {
    const KeyValue pair = assignment(set);
    TR_CHECK(pair.key != "load_weights", "--set {}: the weights are those of --weights", set);
    refuse_data_key(pair.key, "--set");
    task.set(pair.key, pair.value);
  }
  const std::string override = read_env("TR_OVERRIDE").value_or("");
  for (const KeyValue& pair : parse_assignments(override, "TR_OVERRIDE")) {
    refuse_data_key(pair.key, "TR_OVERRIDE");
  }
}

/// How the set is opened: with what --set and TR_OVERRIDE say of it, which else only a task reads.
DatasetOptions options_of(const ApplyArgs& args, const Session& session) {
  Config config{session.global, session.preprocessor, {}};
  for (const KeyValue& pair : settings_of(args)) {
    if (pair.key == "color_channels" || pair.key == "read_timeout")
      set_config(config, pair.key, pair.value);
  }
  const PreprocessorSetting::Values& values = config.preprocessor.values();
  return {.val_fraction = values.val_fraction,
          .color_channels = values.color_channels,
          .read_timeout_s = values.read_timeout_s};
}

int run_eval(const ApplyArgs& args) {
  args.json.probe();
  Session session;
  DeepLearningTask task;
  configure(args, session, task);
  const std::string set = session.preprocessor.values().dataset_name;
  choose_data(session, set, args.data);
  const PreprocessorSetting::Values& values = session.preprocessor.values();
  const DatasetPair data =
      open_dataset(values.dataset_name, values.dataset_path, options_of(args, session));
  TR_CHECK(data.val, "--data {}: {} has no validation split there, expected one to evaluate on",
           *args.data, values.dataset_name);
  task.session(session).dataset({nullptr, data.val}).compile(CompileInfo::NONE);
  const EvalResult result = task.evaluate();
  std::string text = fmt::format("data {}, {} samples: loss {:.4f}", task.data_name(),
                                 result.num_samples, result.loss);
  if (result.top1 >= 0)  // the loss has classes
    text += fmt::format(", top-1 {:.2f} %, top-5 {:.2f} %", 100 * result.top1, 100 * result.top5);
  print(args.json, text);
  args.json.write({{"data", task.data_name()},
                   {"num_samples", result.num_samples},
                   {"val_loss", result.loss},
                   {"top1", result.top1},
                   {"top5", result.top5}});
  return kOk;
}

/// The next number of a PNM header, behind white space and comments; -1 if there is none.
int header_number(const std::string& text, std::size_t& at) {
  const auto skipped = [](unsigned char c) { return std::isspace(c) != 0 || c == '#'; };
  while (at < text.size() && skipped(static_cast<unsigned char>(text[at]))) {
    at = text[at] == '#' ? std::min(text.find('\n', at), text.size()) : at + 1;
  }
  int value = -1;
  const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), value);
  at = std::size_t(parsed.ptr - text.data());
  return parsed.ec == std::errc() ? value : -1;
}

/// A binary PGM (P5) or PPM (P6) of 8 bits. @throws DataError
Tensor read_pnm(const std::string& path) {
  const std::string text = read_text(path);
  const bool known = text.starts_with("P5") || text.starts_with("P6");
  std::size_t at = 2;
  const int width = known ? header_number(text, at) : -1;
  const int height = known ? header_number(text, at) : -1;
  const int top = known ? header_number(text, at) : -1;
  const bool good = width > 0 && height > 0 && width < 65536 && height < 65536 && top == 255;
  const int channels = known && text[1] == '6' ? 3 : 1;
  const std::size_t bytes =
      good ? std::size_t(width) * std::size_t(height) * std::size_t(channels) : 0;
  if (!good || text.size() < at + 1 + bytes) {
    throw_as<DataError>("{}: it is not a whole binary PGM or PPM image of 8 bits", path);
  }
  Tensor image({1, height, width, channels}, DType::UINT8);
  std::memcpy(image.raw(), text.data() + at + 1, bytes);
  return image;
}

/// ".png" of "X.PNG".
std::string lower_extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  return extension;
}

/// Images [n, H, W, C] of one file: IDX, PGM, PPM, or a safetensors file with a tensor "image".
Tensor read_images(const std::string& path) {
  const std::string extension = lower_extension(path);
  if (extension == ".safetensors") {
    const SafetensorsFile file = load_safetensors(path);
    if (!file.contains("image")) throw_as<DataError>("{}: it has no tensor \"image\"", path);
    return file.at("image");
  }
  if (extension == ".pgm" || extension == ".ppm") return read_pnm(path);
  try {
    const Tensor idx = data::read_idx(path, data::IdxKind::IMAGES);
    return idx.reshape({idx.shape()[0], idx.shape()[1], idx.shape()[2], 1});
  } catch (const UnreadableFile&) {
    throw;
  } catch (const DataError& error) {
    throw_as<DataError>(
        "{}; a file that is neither IDX, JPEG nor PNG is known by its name: X.safetensors, X.pgm, "
        "X.ppm",
        error.what());
  }
}

nlohmann::json prediction(const float* scores, std::int64_t classes) {
  const float largest = *std::max_element(scores, scores + classes);
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(double(scores[c] - largest));
  std::vector<std::int64_t> order(static_cast<std::size_t>(classes));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return scores[a] > scores[b]; });
  nlohmann::json top = nlohmann::json::array();
  for (std::size_t i = 0; i < std::min<std::size_t>(5, order.size()); ++i) {
    const double probability = std::exp(double(scores[order[i]] - largest)) / sum;
    top.push_back({{"class", order[i]}, {"probability", probability}});
  }
  return {{"class", order.front()}, {"top5", std::move(top)}};
}

/// True for a file that is called a picture (JPEG, PNG), or is one whatever its name.
bool is_picture(const std::string& path) {
  const std::string extension = lower_extension(path);
  for (const char* known : {".jpg", ".jpeg", ".jpe", ".jfif", ".png"}) {
    if (extension == known) return true;
  }
  const InputFile file(path);
  std::array<std::byte, 4> head{};
  file.read(0, std::span(head).first(std::min<std::size_t>(file.num_bytes(), head.size())));
  const std::string_view bytes(reinterpret_cast<const char*>(head.data()), head.size());
  return bytes.starts_with("\xff\xd8\xff") || bytes == "\x89PNG";
}

/// Scores [n, ...] of pictures, one a file, or of the images of one other file.
struct Scores {
  Tensor values;
  std::vector<std::string> pictures;  // empty: the images of `file`
  std::string file;
};

/// Of what begins with file `at`, which moves on: pictures that follow each other share batches.
Scores predict_next(const std::vector<std::string>& files, std::size_t& at,
                    DeepLearningTask& task) {
  Scores scores;
  while (at < files.size() && is_picture(files[at])) scores.pictures.push_back(files[at++]);
  if (!scores.pictures.empty()) {
    scores.values = task.predict_pictures(scores.pictures);
  } else {
    scores.file = files[at++];
    scores.values = task.predict_images(read_images(scores.file));
  }
  return scores;
}

/// A recipe need not tell the size of its images: then it is that of the first ones.
void set_image_shape(const ApplyArgs& args, const Session& session, DeepLearningTask& task) {
  if (session.global.values().val_resolution.height > 0 || is_picture(args.files.front())) return;
  const Shape images = read_images(args.files.front()).shape();
  TR_CHECK(images.rank() == 4, "{}: the images are {}, expected [n, H, W, C]", args.files.front(),
           images);
  const PreprocessorSetting::Values& values = session.preprocessor.values();
  const TransformChain chain{values.val_transforms, values.normalization};
  task.image_shape(chain.output_shape(images.drop_first()));
}

int run_predict(const ApplyArgs& args) {
  args.json.probe();
  Session session;
  DeepLearningTask task;
  configure(args, session, task);
  set_image_shape(args, session, task);
  task.session(session).dataset({}).compile(CompileInfo::NONE);
  nlohmann::json all = nlohmann::json::array();
  for (std::size_t at = 0; at < args.files.size();) {
    const Scores scores = predict_next(args.files, at, task);
    TR_CHECK(scores.values.shape().rank() == 2 && scores.values.dtype() == DType::FP32,
             "predict: the model gives {}, expected scores of classes, fp32 [n, classes]",
             scores.values.type());
    const std::int64_t classes = scores.values.shape().back();
    for (std::int64_t i = 0; i < scores.values.shape()[0]; ++i) {
      const bool is_picture = !scores.pictures.empty();
      nlohmann::json line = prediction(scores.values.data<float>() + i * classes, classes);
      line["file"] = printable(is_picture ? scores.pictures[std::size_t(i)] : scores.file);
      line["sample"] = is_picture ? 0 : i;
      if (!args.json.to_stdout()) std::printf("%s\n", line.dump().c_str());
      all.push_back(std::move(line));
    }
  }
  args.json.write(all);
  return kOk;
}

CLI::App* add_common(CLI::App& app, const char* name, const char* help, ApplyArgs& args) {
  CLI::App* command = app.add_subcommand(name, help);
  std::vector<std::string> recipes;
  for (const zoo::Recipe& recipe : zoo::recipes()) recipes.push_back(recipe.name);
  command
      ->add_option("MODEL", args.model,
                   fmt::format("a recipe: {}, or FILE.toml; or a model as ImageNet trains it: {}",
                               fmt::join(recipes, ", "), fmt::join(zoo::model_names(), ", ")))
      ->required();
  command
      ->add_option("--weights", args.weights, "safetensors with the model's names, or a checkpoint")
      ->type_name("FILE")
      ->check(not_empty())
      ->required();
  command->add_option("--set", args.sets, "any configuration key; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)  // else it takes the positionals behind it
      ->take_all();
  args.json.add_to(*command);
  return command;
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<ApplyArgs>();
  CLI::App* command =
      add_common(app, "eval", "Loss and accuracy of weights on a validation set.", *args);
  command->add_option("--data", args->data, "folder of the data set")
      ->type_name("DIR")
      ->check(not_empty())
      ->required();
  command->callback([args, &exit_code] { exit_code = run_eval(*args); });
}

void add_predict(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<ApplyArgs>();
  CLI::App* command =
      add_common(app, "predict", "One JSON line a sample: its class and the five best.", *args);
  command
      ->add_option("FILES", args->files,
                   "images: JPEG, PNG, IDX (raw or .gz), PGM, PPM, or safetensors with a uint8 "
                   "tensor \"image\" [n, H, W, C]")
      ->required();
  command->callback([args, &exit_code] { exit_code = run_predict(*args); });
}

}  // namespace tr::command
