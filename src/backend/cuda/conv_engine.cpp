// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conv_engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

/// The engine of a configuration: a descriptor that cuDNN fills.
CudnnDescriptor engine_of(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return engine;
}

std::string name_of(const CudnnDescriptor& config, const CudnnDescriptor& engine) {
  std::int64_t index = -1;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  std::string name = fmt::format("eng{}", index);
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    raw.push_back(choices.back().get());
  }
  const std::int64_t knobs =
      config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 std::int64_t(raw.size()), raw.data());
  choices.erase(choices.begin() + std::min<std::ptrdiff_t>(knobs, std::ssize(choices)),
                choices.end());
  for (const CudnnDescriptor& choice : choices) {
    cudnnBackendKnobType_t type{};
    std::int64_t value = 0;
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += fmt::format("_k{}={}", int(type), value);
  }
  return name;
}

bool is_worth_measuring_engine(const CudnnDescriptor& engine) {
  std::int64_t index = -1;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  if (index <= 1) return false;
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                        std::int64_t(notes.size()), notes.data());
  const auto end = notes.begin() + std::min<std::ptrdiff_t>(count, std::ssize(notes));
  return std::find(notes.begin(), end, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == end;
}

/// Whether results repeat and operands are taken as exactly as the run wants.
bool is_allowed(const CudnnDescriptor& engine, const ConvProblem& problem) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        std::int64_t(notes.size()), notes.data());
  const bool exact = problem.dtype == DType::FP32 && !problem.tf32;
  for (std::int64_t i = 0; i < std::min(count, std::int64_t(notes.size())); ++i) {
    switch (notes[std::size_t(i)]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return false;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        if (problem.dtype == DType::FP32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (exact) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      case CUDNN_NUMERICAL_NOTE_FFT:
        return false;  // they err by more than sums in another order do
      default: break;
    }
  }
  return true;
}

void add_engines(const ConvGraph& graph, cudnnBackendHeurMode_t mode,
                 std::vector<ConvEngine>& engines) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor());
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (graph.target().properties != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *graph.target().properties);
  }
  if (!heuristics.try_finalize().empty()) return;  // none of this kind
  const std::int64_t there =
      heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  if (there == 0) return;
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < there; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  const std::int64_t count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, there, raw.data());
  for (std::int64_t i = 0; i < count; ++i) {
    CudnnDescriptor& config = configs[std::size_t(i)];
    const CudnnDescriptor engine = engine_of(config);
    std::string name = name_of(config, engine);
    const bool known = std::any_of(engines.begin(), engines.end(),
                                   [&](const ConvEngine& e) { return e.name == name; });
    if (known || !is_allowed(engine, graph.problem())) continue;
    const bool worth = is_worth_measuring_engine(engine);
    engines.push_back({std::move(config), std::move(name), worth});
  }
}

struct Knob {
  cudnnBackendKnobType_t type;
  std::int64_t value;
};
struct ParsedName {
  std::int64_t engine = 0;
  std::vector<Knob> knobs;
};

/// Takes `prefix` and a number from the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const char* begin = text.data() + prefix.size();
  const char* end = text.data() + text.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(std::size_t(stop - text.data()));
  return value;
}

/// The inverse of name_of().
std::optional<ParsedName> parse(std::string_view name) {
  ParsedName parsed;
  const auto engine = take_number(name, "eng");
  if (!engine) return std::nullopt;
  parsed.engine = *engine;
  while (!name.empty()) {
    const auto type = take_number(name, "_k");
    const auto value = take_number(name, "=");
    if (!type || !value || *type < 0 || *type >= CUDNN_KNOB_TYPE_COUNTS) return std::nullopt;
    parsed.knobs.push_back({cudnnBackendKnobType_t(*type), *value});
  }
  return parsed;
}

}  // namespace

std::vector<ConvEngine> offered_engines(const ConvGraph& graph) {
  std::vector<ConvEngine> engines;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    add_engines(graph, mode, engines);
  }
  return engines;
}

ConvEngine named_engine(const ConvGraph& graph, std::string_view name) {
  const std::optional<ParsedName> parsed = parse(name);
  if (!parsed) throw_as<DeviceError>("{} is no name of an engine of cuDNN", name);
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.descriptor());
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, parsed->engine);
  if (graph.target().properties != nullptr) {
    engine.set(CUDNN_ATTR_ENGINE_DEVICEPROP, *graph.target().properties);
  }
  engine.finalize();
  if (!is_allowed(engine, graph.problem())) {
    throw_as<DeviceError>("the engine {} does not repeat its bytes, or rounds too much", name);
  }
  ConvEngine made{.config = CudnnDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                  .name = std::string(name),
                  .worth_measuring = is_worth_measuring_engine(engine)};
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Knob& knob : parsed->knobs) {
    CudnnDescriptor choice(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &knob.type);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value);
    choice.finalize();
    raw.push_back(choice.get());
    made.parts.push_back(std::move(choice));
  }
  made.config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  if (!raw.empty()) {
    made.config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                    std::int64_t(raw.size()), raw.data());
  }
  made.config.finalize();
  made.parts.push_back(std::move(engine));
  return made;
}

}  // namespace tr::cuda
