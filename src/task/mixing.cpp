// SPDX-License-Identifier: Apache-2.0
#include "task/mixing.h"

#include "algo/loss_spec.h"
#include "core/check.h"
#include "core/format.h"
#include "data/transforms/batch_mix.h"

namespace tr {

namespace {

constexpr const char* kLabel = "label";
constexpr const char* kSoftLabel = "soft_label";

}  // namespace

int mix_labels(const TransformChain& chain, const Loss& loss, const ArchPlan& arch,
               std::map<std::string, TensorType>& fields, LossSpec& spec) {
  if (!data::mixes_batches(chain)) return 0;
  const std::string who = fmt::format("train_transforms ({})", chain.str());
  const auto label = fields.find(kLabel);
  TR_CHECK(
      label != fields.end() && label->second.shape.rank() == 0 && !is_floating(label->second.dtype),
      "{}: batches cannot be mixed: the data have no field \"label\" that is a class number", who);
  TR_CHECK(!fields.contains(kSoftLabel),
           "{}: batches cannot be mixed: the data have a field \"soft_label\" of their own", who);
  std::int64_t classes = 0;
  for (const LossTerm& term : loss.terms) {
    TR_CHECK(
        term.kind == LossTerm::Kind::CROSS_ENTROPY && term.field == kLabel,
        "{}: batches cannot be mixed: the loss {} compares with \"{}\", expected cross_entropy "
        "with \"label\" alone, whose classes are mixed",
        who, loss.name(), fmt::join(fields_of(term), ", "));
    TR_CHECK(term.output < int(arch.outputs.size()),
             "cross_entropy: output is {}, expected below {}", term.output, arch.outputs.size());
    const TensorType type = arch.output_type(std::size_t(term.output));
    TR_CHECK(type.shape.rank() == 1,
             "cross_entropy: a sample of output {} is {}, expected class scores [C]", term.output,
             type);
    TR_CHECK(classes == 0 || classes == type.shape[0],
             "{}: batches cannot be mixed: the loss reads outputs of {} and of {} classes", who,
             classes, type.shape[0]);
    classes = type.shape[0];
  }
  fields[kSoftLabel] = {Shape{classes}, DType::FP32};
  spec.training_fields[kLabel] = kSoftLabel;
  return int(classes);
}

}  // namespace tr
