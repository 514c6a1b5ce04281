// SPDX-License-Identifier: Apache-2.0
#include "task/batch_plan.h"

#include <algorithm>

#include "core/check.h"
#include "core/format.h"
#include "data/sampler.h"

namespace tr {

BatchPlan plan_batches(const GlobalSetting::Values& global, int world_size) {
  BatchPlan plan;
  plan.world_size = world_size;
  plan.accumulate_steps = global.accumulate_steps;
  const std::int64_t parts = std::int64_t(world_size) * global.accumulate_steps;
  constexpr std::int64_t kMost = std::int64_t(1) << 40;  // of which no memory holds a batch
  if (global.global_batch_size == 0) {
    plan.local = global.local_batch_size;
    TR_CHECK(plan.local <= kMost / parts,
             "local_batch_size is {}, which with cpu_ranks {} x accumulate_steps {} makes steps of "
             "more than 2^40 samples",
             plan.local, world_size, global.accumulate_steps);
    plan.global = plan.local * parts;
    return plan;
  }
  plan.global = global.global_batch_size;
  TR_CHECK(plan.global <= kMost, "global_batch_size is {}, expected at most 2^40 samples",
           plan.global);
  TR_CHECK(
      plan.global % parts == 0,
      "global_batch_size is {}, expected a multiple of {} (cpu_ranks {} x accumulate_steps {})",
      plan.global, parts, world_size, global.accumulate_steps);
  plan.local = plan.global / parts;
  TR_CHECK(global.local_batch_size == 0 || global.local_batch_size == plan.local,
           "local_batch_size is {}, expected {} (global_batch_size {} / cpu_ranks {} / "
           "accumulate_steps {})",
           global.local_batch_size, plan.local, plan.global, world_size, global.accumulate_steps);
  return plan;
}

void check_batches(const BatchPlan& batches, const GlobalSetting::Values& global,
                   const ArchPlan& arch) {
  const BatchLimit limit = arch.largest_batch();
  const bool whole = global.global_batch_size > 0;
  TR_CHECK(batches.local <= limit.samples,
           "{} is {}, which makes batches of {} samples on a rank, expected at most {}: {}",
           whole ? "global_batch_size" : "local_batch_size",
           whole ? batches.global : global.local_batch_size, batches.local, limit.samples,
           limit.reason);
}

BatchPlan cut(const BatchPlan& batches, int parts) {
  TR_ASSERT(parts >= 1 && batches.local % parts == 0);
  BatchPlan plan = batches;
  plan.local /= parts;
  plan.accumulate_steps *= parts;
  return plan;
}

std::vector<int> possible_cuts(const BatchPlan& batches) {
  constexpr std::int64_t kMost = 65536;  // micro-batches, as GlobalSetting::accumulate_steps
  std::vector<int> parts;
  for (std::int64_t n = 1; n <= std::min(batches.local, kMost / batches.accumulate_steps); ++n) {
    if (batches.local % n == 0) parts.push_back(int(n));
  }
  return parts;
}

MicroStep VariantTable::micro_step(int micro) const {
  return {.first = micro == 0, .last = micro == batches_.accumulate_steps - 1};
}

int VariantTable::find(Mode mode, std::int64_t batch, MicroStep micro, int state) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const VariantKey& key = keys_[i];
    const bool same =
        key.mode == mode && key.batch == batch && key.micro == micro && key.freeze_state == state;
    if (same) return int(i);
  }
  return -1;
}

int VariantTable::add(Mode mode, std::int64_t batch, MicroStep micro, const ModeFields& fields,
                      int state) {
  if (const int known = find(mode, batch, micro, state); known >= 0) return known;
  VariantKey key{.mode = mode, .batch = batch, .micro = micro};
  key.freeze_state = state;
  for (const auto& [field, type] : fields.of(mode))
    key.fields[field] = {type.shape.prepend(batch), type.dtype};
  key.ema = ema_ && mode != Mode::TRAIN;
  key.name = fmt::format("{}_{}{}", name_of(mode), batch,
                         micro == MicroStep{} ? ""
                                              : fmt::format("_{}{}", micro.first ? "first" : "",
                                                            micro.last    ? "last"
                                                            : micro.first ? ""
                                                                          : "middle"));
  if (state > 0) key.name += fmt::format("_freeze{}", state);
  keys_.push_back(std::move(key));
  return int(keys_.size()) - 1;
}

VariantTable::VariantTable(const BatchPlan& batches, const SplitSizes& sizes,
                           const ModeFields& fields, const VariantOptions& options)
    : batches_(batches), ema_(options.ema) {
  // A rank may have nothing to do in a short step; it then runs some variant of the same kind.
  std::vector<std::pair<Mode, MicroStep>> idle;
  const auto states_of = [&](Mode mode) { return mode == Mode::TRAIN ? options.freeze_states : 1; };
  const auto add_shares = [&](Mode mode, const data::SamplerConfig& config) {
    for (int rank = 0; rank < batches.world_size; ++rank) {
      data::SamplerConfig of_rank = config;
      of_rank.rank = rank;
      const data::Sampler sampler(of_rank);
      for (const std::int64_t step : {std::int64_t{0}, sampler.num_steps() - 1}) {
        for (int micro = 0; micro < sampler.num_micro(); ++micro) {
          const MicroStep kind = mode == Mode::TRAIN ? micro_step(micro) : MicroStep{};
          const std::int64_t size = sampler.share(step, micro).size;
          if (size == 0) idle.emplace_back(mode, kind);
          for (int state = 0; size > 0 && state < states_of(mode); ++state)
            add(mode, size, kind, fields, state);
        }
      }
    }
  };
  data::SamplerConfig config{.batch_size = batches.local, .world_size = batches.world_size};
  if (sizes.train > 0) {
    TR_CHECK(!sizes.drop_last || sizes.train >= batches.global,
             "drop_last is on and the training set has {} samples: fewer than a batch of {}, no "
             "step would be left",
             sizes.train, batches.global);
    config.num_samples = sizes.train;
    config.global_batch = batches.global;
    config.drop_last = sizes.drop_last;
    add_shares(Mode::TRAIN, config);
  }
  if (sizes.val > 0) {
    config.num_samples = sizes.val;
    config.global_batch = batches.local * batches.world_size;
    config.drop_last = false;
    config.split = 1;
    add_shares(Mode::EVAL, config);
  }
  // Of a size that the run has: batch norm refuses a batch of one value a channel.
  for (const auto& [mode, kind] : idle) {
    std::int64_t least = batches.local;
    for (const VariantKey& key : keys_) {
      if (key.mode == mode) least = std::min(least, key.batch);
    }
    for (int state = 0; state < states_of(mode); ++state) {
      if (smallest(mode, kind, state) < 0) add(mode, least, kind, fields, state);
    }
  }
  predict_ = add(Mode::PREDICT, batches.local, MicroStep{}, fields);
}

int VariantTable::smallest(Mode mode, MicroStep micro, int state) const {
  int best = -1;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const VariantKey& key = keys_[i];
    if (key.mode != mode || key.micro != micro || key.freeze_state != state) continue;
    if (best < 0 || keys_[i].batch < keys_[std::size_t(best)].batch) best = int(i);
  }
  return best;
}

int VariantTable::train(int micro, std::int64_t size, int state) const {
  const MicroStep kind = micro_step(micro);
  const int variant =
      size == 0 ? smallest(Mode::TRAIN, kind, state) : find(Mode::TRAIN, size, kind, state);
  TR_ASSERT(variant >= 0);
  return variant;
}

int VariantTable::eval(std::int64_t size) const {
  const int variant = size == 0 ? smallest(Mode::EVAL, {}) : find(Mode::EVAL, size, {});
  TR_ASSERT(variant >= 0);
  return variant;
}

}  // namespace tr
