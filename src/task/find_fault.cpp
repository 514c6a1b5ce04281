// SPDX-License-Identifier: Apache-2.0
// Where a step that gave NaN or infinities got them from: the step is fed again, rank by rank.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/check.h"
#include "core/format.h"
#include "core/log.h"
#include "data/split_pipeline.h"
#include "graph/step_tables.h"
#include "task/sample_check.h"
#include "task/trainer.h"

namespace tr {

namespace {

constexpr std::int64_t kMaxSkippedInRow = 20;  // steps, at loss scale 1
constexpr int kNamedOverflows = 3;             // of a run

std::int64_t num_not_finite(const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return 0;
  const Tensor values = tensor.to(DType::FP32);
  const auto span = values.values<float>();
  return std::count_if(span.begin(), span.end(), [](float v) { return !std::isfinite(v); });
}

/// Puts the counters of training to rows and draws of micro-batch `micro` of step `step` of the
/// run, and back, whatever is thrown meanwhile. A device may have run further steps since.
/// The loss scale too, where `loss_scale` is given.
class PastStep {
 public:
  PastStep(Executor& executor, std::int64_t step, int num_micro, int micro,
           std::optional<float> loss_scale)
      : executor_(executor), place_(executor.place("counters")) {
    executor_.read(place_, saved_.data(), sizeof saved_);
    if (loss_scale) {
      scale_place_ = executor.place("loss_scale");
      executor_.read(*scale_place_, &saved_scale_, sizeof saved_scale_);
      executor_.write(*scale_place_, &*loss_scale, sizeof *loss_scale);
    }
    std::array<std::int64_t, kNumCounters> then = saved_;
    then[kCounterRow] = step * num_micro + micro;
    then[kCounterStep] = step;
    executor_.write(place_, then.data(), sizeof then);
  }
  ~PastStep() {
    try {
      executor_.write(place_, saved_.data(), sizeof saved_);
      if (scale_place_) executor_.write(*scale_place_, &saved_scale_, sizeof saved_scale_);
    } catch (const Error& error) {
      // The device has failed: what it threw first is on its way.
      log_warning("the counters of the step that was looked at are not put back: {}", error.what());
    }
  }
  PastStep(const PastStep&) = delete;
  PastStep& operator=(const PastStep&) = delete;

 private:
  Executor& executor_;
  const std::int64_t place_;
  std::array<std::int64_t, kNumCounters> saved_{};
  std::optional<std::int64_t> scale_place_;
  float saved_scale_ = 1;
};

/// Layers, loss and gradients of one micro-batch; what follows is of all ranks.
bool is_of_micro_batch(GraphId label) {
  return label != GraphId::ACCUMULATE && label != GraphId::COMM && label < GraphId::CHECK;
}

/// Inputs and parameters, then what the nodes of the micro-batch wrote, in the order of the step.
/// The parameters' gradients stand as the step left them, summed over ranks and micro-batches, so
/// they are looked at apart.
std::string first_not_finite(Executor& executor, int variant, const LoweredGraph& graph,
                             bool gradients) {
  const auto check = [&](TensorId id, const std::string& what) -> std::string {
    const LoweredTensor& tensor = graph.tensor(id);
    if (!is_floating(tensor.type.dtype)) return "";
    const Tensor value = executor.fetch(variant, tensor.name);
    const std::int64_t bad = num_not_finite(value);
    if (bad == 0) return "";
    return fmt::format("{} ({} of {} elements of \"{}\" {})", what, bad, value.num_elements(),
                       tensor.name, tensor.type);
  };
  std::string found;
  for (TensorId id = 0; id < TensorId(graph.tensors.size()) && found.empty(); ++id) {
    const LoweredTensor& tensor = graph.tensor(id);
    if (gradients) break;
    if (tensor.role == Role::INPUT && tensor.view_of == kNoTensor)
      found = check(id, fmt::format("the network's input \"{}\"", tensor.name));
    if (tensor.role == Role::WEIGHT && tensor.range_role < 0) found = check(id, "a parameter");
  }
  for (const LoweredNode& node : graph.nodes) {
    if (!found.empty() || !is_of_micro_batch(node.label)) break;
    for (const TensorId id : node.outputs) {
      if (id == kNoTensor || !found.empty()) continue;
      if (is_persistent(graph.tensor(id).role) != gradients) continue;
      found = check(id, fmt::format("layer \"{}\" ({}){}", node.layer, node.op,
                                    node.where.empty() ? "" : ", built at " + node.where.str()));
    }
  }
  return found;
}

}  // namespace

StepPlace Trainer::last_step() const {
  TR_CHECK(progress_.total_steps > 0, "no training step has been run yet");
  // The position of the step before the stream's next one.
  std::int64_t phase = progress_.phase, step = progress_.step;
  if (step == 0) {
    do {
      --phase;
    } while (run_.phases[std::size_t(phase)].split != data::Split::TRAIN);
    step = run_.train_steps;
  }
  return {run_.phases[std::size_t(phase)], step - 1};
}

void Trainer::replay(const StepPlace& place, int rank_index, const ReplayBody& body) {
  Rank& rank = *ranks_[std::size_t(rank_index)];
  const bool training = place.phase.split == data::Split::TRAIN;
  data::LoaderConfig config = run_.loader_config(rank_index);
  (training ? config.val : config.train).dataset = nullptr;
  config.num_workers = 1;
  config.full_memory = nullptr;  // for a single step
  config.val.cache_processed = false;
  data::Loader loader(
      config, [&](std::int64_t i) { return i == 0 ? std::optional(place.phase) : std::nullopt; }, 0,
      place.step);
  const int num_micro = training ? run_.batches.accumulate_steps : 1;
  for (int micro = 0; micro < num_micro; ++micro) {
    const data::Batch* batch = loader.next();
    TR_ASSERT(batch && batch->micro == micro);
    std::optional<PastStep> again;
    if (training) {
      again.emplace(rank.executor(), progress_.total_steps - 1, num_micro, micro,
                    replayed_loss_scale_);
    }
    rank.bind(*batch);
    const int variant =
        training ? run_.variants.train(micro, batch->size, run_.freezes.state(place.phase.epoch))
                 : run_.variants.eval(batch->size);
    if (!body(rank.executor(), variant)) return;
    loader.release(*batch);
  }
}

std::string Trainer::bad_input(const StepPlace& place) {
  SampleCheck check(run_, place.phase.split);
  if (!check.has_floating()) return "";
  const data::LoaderConfig loader = run_.loader_config(0);
  // The step as a whole: which rank and micro-batch takes a sample does not matter here.
  data::SamplerConfig config = data::sampler_config(loader, place.phase.split);
  config.batch_size = config.global_batch;
  config.rank = 0;
  config.world_size = 1;
  const data::Sampler sampler(config);
  const Permutation order = sampler.order(place.phase.epoch);
  const std::int64_t first = place.step * config.global_batch;
  for (std::int64_t i = 0; i < sampler.step_size(place.step); ++i) {
    std::string fault = check.not_finite(sampler.sample_at(order, first + i));
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string Trainer::find_fault(const StepPlace& place) {
  std::string found = bad_input(place);
  const auto look_at = [&](int rank, bool gradients) {
    replay(place, rank, [&](Executor& executor, int variant) {
      const int graph = run_.compiled.atlas.whole(variant);
      found =
          first_not_finite(executor, variant, run_.compiled.lowered[std::size_t(graph)], gradients);
      return found.empty();
    });
  };
  for (int rank = 0; rank < int(ranks_.size()) && found.empty(); ++rank) look_at(rank, false);
  if (found.empty()) look_at(0, true);
  return found;
}

std::string Trainer::find_nan() { return find_fault(last_step()); }

/// Says where a step that a smaller loss scale may mend left fp16's range. The first few of a run:
/// each is fed again.
void Trainer::name_overflow(const StepOutcome& outcome) {
  ++num_named_overflows_;
  const StepPlace place = last_step();
  replayed_loss_scale_ = outcome.loss_scale;
  const std::string where = find_fault(place);
  replayed_loss_scale_.reset();
  log_warning("step {} of epoch {} was skipped at loss scale {}; first not finite: {}{}",
              place.step + 1, place.phase.epoch + 1, outcome.loss_scale,
              where.empty() ? "nothing, when it is run again with the weights of now" : where,
              num_named_overflows_ == kNamedOverflows ? "; further ones are counted only" : "");
}

bool Trainer::is_suspect(const StepOutcome& outcome) const {
  if (!outcome.skipped) return false;
  const bool scaled = run_.config.global.values().low_dtype == DType::FP16;
  if (!scaled) return true;
  const bool forward = !std::isfinite(outcome.totals.loss_sum);  // no matter of the loss scale
  return forward || num_named_overflows_ < kNamedOverflows ||
         (outcome.loss_scale <= 1 && outcome.skipped_in_row >= kMaxSkippedInRow);
}

void Trainer::judge_skipped_step(const StepOutcome& outcome) {
  const StepPlace place = last_step();
  const std::string at = fmt::format("step {} of epoch {}", place.step + 1, place.phase.epoch + 1);
  const std::string input = bad_input(place);
  if (!input.empty()) throw_as<DataError>("{} was skipped: {}", at, input);
  const bool scaled = run_.config.global.values().low_dtype == DType::FP16;
  if (!scaled) fail_not_finite(fmt::format("{} was skipped", at));
  if (outcome.loss_scale <= 1 && outcome.skipped_in_row >= kMaxSkippedInRow) {
    fail_not_finite(fmt::format("{} steps in a row, up to {}, were skipped at loss scale 1",
                                outcome.skipped_in_row, at));
  }
  if (num_named_overflows_ < kNamedOverflows) name_overflow(outcome);
}

void Trainer::fail_not_finite(const std::string& what) {
  // The steps changed nothing, so the last one shows the fault again.
  const std::string where = find_nan();
  throw_as<InvalidArgument>(
      "{}: the gradient is not finite; {}", what,
      where.empty() ? "the step shows nothing else when it is run again" : "first: " + where);
}

void Trainer::judge_validation(const EvalResult& result, const StepPlace& place) {
  const std::string input = bad_input(place);
  if (!input.empty()) throw_as<DataError>("validation: {}", input);
  const std::string where = find_fault(place);
  log_warning("the validation loss is {}; first not finite: {}", result.loss,
              where.empty() ? "a sum over batches" : where);
}

}  // namespace tr
