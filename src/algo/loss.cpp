// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/loss.h"

#include <algorithm>
#include <utility>

#include "algo/loss_spec.h"
#include "core/check.h"

namespace tr {
namespace {

const char* name_of(LossTerm::Kind kind) {
  switch (kind) {
    case LossTerm::Kind::CROSS_ENTROPY: return "cross_entropy";
    case LossTerm::Kind::MSE: return "mse";
    case LossTerm::Kind::BCE_WITH_LOGITS: return "bce_with_logits";
  }
  throw_as<InternalError>("LossTerm of unknown kind {}", int(kind));
}

void check_smoothing(float value) {
  TR_CHECK(value >= 0 && value <= 1,
           "cross_entropy: label_smoothing is {}, expected 0 <= label_smoothing <= 1", value);
}

TensorId add_term(GraphBuilder& builder, const LossTerm& term, std::span<const TensorId> outputs,
                  const FieldLookup& field) {
  TR_CHECK(term.output < int(outputs.size()),
           "{}: output is {}, expected below {} (outputs of the model)", name_of(term.kind),
           term.output, outputs.size());
  const TensorId y = outputs[std::size_t(term.output)];
  const TensorId target = field(term.field);
  if (term.kind != LossTerm::Kind::CROSS_ENTROPY)
    return builder.add(name_of(term.kind), {y, target});
  const TensorId logp = builder.add("log_softmax", {y});
  return builder.add("nll", {logp, target}, {{"label_smoothing", double(term.label_smoothing)}});
}

}  // namespace

CrossEntropyLoss& CrossEntropyLoss::label_smoothing(float value) {
  check_smoothing(value);
  term_.label_smoothing = value;
  return *this;
}
CrossEntropyLoss& CrossEntropyLoss::field(std::string name) {
  term_.field = std::move(name);
  return *this;
}
CrossEntropyLoss& CrossEntropyLoss::output(int index) {
  term_.output = index;
  return *this;
}
MSELoss& MSELoss::field(std::string name) {
  term_.field = std::move(name);
  return *this;
}
MSELoss& MSELoss::output(int index) {
  term_.output = index;
  return *this;
}
BCEWithLogitsLoss& BCEWithLogitsLoss::field(std::string name) {
  term_.field = std::move(name);
  return *this;
}
BCEWithLogitsLoss& BCEWithLogitsLoss::output(int index) {
  term_.output = index;
  return *this;
}

Loss operator+(Loss a, const Loss& b) {
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

std::string Loss::name() const {
  std::string name;
  for (const LossTerm& term : terms)
    name += (name.empty() ? "" : "+") + std::string(name_of(term.kind));
  return name;
}

void Loss::validate() const {
  TR_CHECK(!terms.empty(),
           "loss: it has no term, expected CrossEntropyLoss, MSELoss or BCEWithLogitsLoss");
  for (const LossTerm& term : terms) {
    check_smoothing(term.label_smoothing);
    TR_CHECK(term.output >= 0, "{}: output is {}, expected at least 0", name_of(term.kind),
             term.output);
    TR_CHECK(!term.field.empty(), "{}: the field's name is empty", name_of(term.kind));
  }
}

LossSpec loss_spec(const Loss& loss) {
  loss.validate();
  LossSpec spec;
  spec.name = loss.name();
  for (const LossTerm& term : loss.terms) {
    if (std::find(spec.fields.begin(), spec.fields.end(), term.field) == spec.fields.end()) {
      spec.fields.push_back(term.field);
    }
  }
  // Metrics look at the first output: it must be the one that holds class scores.
  spec.classification =
      loss.terms.front().kind == LossTerm::Kind::CROSS_ENTROPY && loss.terms.front().output == 0;
  spec.build = [terms = loss.terms](GraphBuilder& builder, std::span<const TensorId> outputs,
                                    const FieldLookup& field) {
    TensorId sum = kNoTensor;
    for (const LossTerm& term : terms) {
      const TensorId loss_sum = add_term(builder, term, outputs, field);
      sum = sum == kNoTensor ? loss_sum : builder.add("add", {sum, loss_sum});
    }
    return sum;
  };
  return spec;
}

}  // namespace tr
