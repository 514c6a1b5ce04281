// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/loss.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "algo/loss_spec.h"
#include "algo/own_loss.h"
#include "core/check.h"
#include "core/nearest_name.h"

namespace tr {
namespace {

using Kind = LossTerm::Kind;

constexpr std::pair<Kind, std::string_view> kNames[] = {{Kind::CROSS_ENTROPY, "cross_entropy"},
                                                        {Kind::MSE, "mse"},
                                                        {Kind::L1, "l1"},
                                                        {Kind::HUBER, "huber"},
                                                        {Kind::SMOOTH_L1, "smooth_l1"},
                                                        {Kind::BCE_WITH_LOGITS, "bce_with_logits"},
                                                        {Kind::FOCAL, "focal"},
                                                        {Kind::KL_DIV, "kl_div"},
                                                        {Kind::OWN, "own"}};

void check_weights(Kind kind, std::string_view what, const std::vector<float>& weights) {
  for (const float w : weights) {
    TR_CHECK(w >= 0 && std::isfinite(w), "{}: {} has {}, expected finite numbers of at least 0",
             name_of(kind), what, w);
  }
}

/// What messages and records call a term.
std::string called(const LossTerm& term) {
  return term.kind == Kind::OWN ? term.own_name : std::string(name_of(term.kind));
}

std::string text_of(const LossTerm& t) {
  const LossTerm plain;
  std::vector<std::string> parts;
  const auto add = [&](bool set, std::string_view name, const auto& value) {
    if (set) parts.push_back(fmt::format("{}={}", name, value));
  };
  add(t.weight != plain.weight, "weight", t.weight);
  add(t.output != 0, "output", t.output);
  if (t.target_value) {
    add(true, "target_value", *t.target_value);
  } else {
    add(t.target_output >= 0, "target_output", t.target_output);
    const bool usual =
        t.kind == Kind::OWN || t.field == (t.kind == Kind::CROSS_ENTROPY ? "label" : "target");
    add(t.target_output < 0 && !usual, "field", t.field);
  }
  add(t.label_smoothing != 0, "label_smoothing", t.label_smoothing);
  add(!t.class_weights.empty(), "class_weights",
      fmt::format("{}", fmt::join(t.class_weights, ",")));
  if (t.ignore_index) add(true, "ignore_index", *t.ignore_index);
  add(!t.pos_weight.empty(), "pos_weight", fmt::format("{}", fmt::join(t.pos_weight, ",")));
  add(t.kind == Kind::HUBER, "delta", t.delta);
  add(t.kind == Kind::SMOOTH_L1, "beta", t.delta);
  add(t.kind == Kind::FOCAL, "alpha", t.alpha);
  add(t.kind == Kind::FOCAL, "gamma", t.gamma);
  add(t.logits, "temperature", t.temperature);
  add(t.class_scores, "class_scores", t.class_scores);
  if (t.kind == Kind::OWN) add(true, "expression", own_loss_digest(t));
  std::string text = called(t);
  if (!parts.empty()) text += fmt::format("({})", fmt::join(parts, " "));
  return text;
}

/// Adds a term's nodes. `number` is its place in the loss, of which its constants are named.
class TermBuilder {
 public:
  TermBuilder(GraphBuilder& builder, const LossTerm& term, int number, const LossOperands& operands)
      : builder_(builder), term_(term), number_(number), operands_(operands) {}

  TensorId add() {
    const TensorId loss =
        term_.kind == Kind::OWN ? add_own_loss(builder_, term_, operands_) : comparison();
    const double factor = term_.weight * term_.temperature * term_.temperature;
    return factor == 1 ? loss : scaled(loss, factor);
  }

 private:
  TensorId comparison() {
    const TensorId y = output(term_.output), target = target_of(y);
    switch (term_.kind) {
      case Kind::CROSS_ENTROPY: return cross_entropy(y, target);
      case Kind::KL_DIV: return kl_div(y, target);
      default: return pair(y, target);
    }
  }

  TensorId output(int index) const {
    const std::span<const TensorId> outputs = operands_.outputs;
    TR_CHECK(index < int(outputs.size()),
             "{}: output is {}, expected below {} (outputs of the model)", name_of(term_.kind),
             index, outputs.size());
    return outputs[std::size_t(index)];
  }

  TensorId target_of(TensorId y) {
    if (term_.target_value) return builder_.add("full_like", {y}, {{"value", *term_.target_value}});
    if (term_.target_output < 0) return operands_.field(term_.field);
    const TensorId other = builder_.add("stop_gradient", {output(term_.target_output)});
    // Outputs may be 16-bit, targets are fp32.
    return builder_.add("cast", {other}, {{"dtype", std::string("fp32")}});
  }

  TensorId scaled(TensorId x, double factor) {
    return builder_.add("scale", {x}, {{"factor", factor}});
  }

  TensorId constant(const char* name, const std::vector<float>& values) {
    if (values.empty()) return kNoTensor;
    return builder_.persistent(loss_constant_name(number_, name), Role::TABLE,
                               {Shape{std::int64_t(values.size())}, DType::FP32});
  }

  TensorId cross_entropy(TensorId y, TensorId labels) {
    const TensorId logp = builder_.add("log_softmax", {y});
    Attrs attrs{{"label_smoothing", double(term_.label_smoothing)}};
    const TensorId weights = constant("class_weights", term_.class_weights);
    if (weights == kNoTensor && !term_.ignore_index)
      return builder_.add("nll", {logp, labels}, attrs);
    Attrs counts;
    if (term_.ignore_index) {
      counts.set("ignore_index", *term_.ignore_index);
      attrs.set("ignore_index", *term_.ignore_index);
    }
    std::vector<TensorId> counted = {labels}, inputs = {logp, labels, weights};
    if (weights != kNoTensor) counted.push_back(weights);
    inputs.push_back(builder_.add("class_norm", counted, counts));
    return builder_.add("weighted_nll", inputs, attrs);
  }

  TensorId kl_div(TensorId y, TensorId target) {
    const bool teacher = term_.logits && term_.target_output >= 0 && !term_.target_value;
    const auto log_probabilities = [&](TensorId scores) {
      if (term_.temperature != 1) scores = scaled(scores, 1 / term_.temperature);
      return builder_.add("log_softmax", {scores});
    };
    if (term_.logits) y = log_probabilities(y);
    if (teacher) target = log_probabilities(target);
    return builder_.add("kl_div", {y, target}, {{"log_target", teacher}});
  }

  TensorId pair(TensorId y, TensorId target) {
    std::vector<TensorId> inputs = {y, target};
    const TensorId weight = constant("pos_weight", term_.pos_weight);
    if (weight != kNoTensor) inputs.push_back(weight);
    Attrs attrs;
    if (term_.kind == Kind::HUBER) attrs.set("delta", term_.delta);
    if (term_.kind == Kind::SMOOTH_L1) attrs.set("beta", term_.delta);
    if (term_.kind == Kind::FOCAL) attrs.set("alpha", term_.alpha).set("gamma", term_.gamma);
    return builder_.add(std::string(name_of(term_.kind)), inputs, attrs);
  }

  GraphBuilder& builder_;
  const LossTerm& term_;
  const int number_;
  const LossOperands& operands_;
};

void add_constants(const LossTerm& term, int number, LossSpec& spec) {
  const auto add = [&](const char* name, const std::vector<float>& values) {
    if (values.empty()) return;
    spec.constants.emplace_back(loss_constant_name(number, name),
                                Tensor::from({std::int64_t(values.size())}, values));
  };
  add("class_weights", term.class_weights);
  add("pos_weight", term.pos_weight);
}

}  // namespace

std::string_view name_of(Kind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  throw_as<InternalError>("LossTerm of unknown kind {}", int(kind));
}

Kind loss_kind_from_name(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [kind, text] : kNames) {
    if (kind == Kind::OWN) continue;  // its expression has no name
    if (text == name) return kind;
    known.emplace_back(text);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("loss", name, known));
}

void LossTerm::validate() const {
  if (kind == Kind::OWN) validate_own_loss(*this);
  const std::string who = called(*this);
  const auto only = [&](bool set, Kind owner, std::string_view option) {
    TR_CHECK(!set || kind == owner, "{}: {} is set, which only {} takes", who, option,
             name_of(owner));
  };
  TR_CHECK(label_smoothing >= 0 && label_smoothing <= 1,
           "{}: label_smoothing is {}, expected 0 <= label_smoothing <= 1", who, label_smoothing);
  only(label_smoothing > 0, Kind::CROSS_ENTROPY, "label_smoothing");
  only(!class_weights.empty(), Kind::CROSS_ENTROPY, "class_weights");
  only(ignore_index.has_value(), Kind::CROSS_ENTROPY, "ignore_index");
  only(!pos_weight.empty(), Kind::BCE_WITH_LOGITS, "pos_weight");
  only(logits, Kind::KL_DIV, "logits");
  only(class_scores, Kind::OWN, "class_scores");
  check_weights(kind, "class_weights", class_weights);
  check_weights(kind, "pos_weight", pos_weight);
  TR_CHECK(output >= 0, "{}: output is {}, expected at least 0", who, output);
  TR_CHECK(target_output >= -1, "{}: target_output is {}, expected at least 0", who, target_output);
  TR_CHECK(target_output != output, "{}: output and target_output are both {}, expected two", who,
           output);
  const bool targets = target_output >= 0 || target_value;
  TR_CHECK(kind != Kind::CROSS_ENTROPY || !targets,
           "{}: it compares with an output or a number, expected a field of labels", who);
  TR_CHECK(!target_value || std::isfinite(*target_value),
           "{}: target_value is {}, expected a finite number", who, target_value.value_or(0));
  TR_CHECK(targets || !field.empty() || kind == Kind::OWN, "{}: the field's name is empty", who);
  TR_CHECK(std::isfinite(weight), "{}: weight is {}, expected a finite number", who, weight);
  const bool line = kind == Kind::SMOOTH_L1 ? delta >= 0 : delta > 0;
  TR_CHECK(line && std::isfinite(delta), "{}: {} is {}, expected a positive number", who,
           kind == Kind::SMOOTH_L1 ? "beta" : "delta", delta);
  TR_CHECK(alpha <= 1, "{}: alpha is {}, expected at most 1 (below 0: off)", who, alpha);
  TR_CHECK(gamma >= 0 && std::isfinite(gamma), "{}: gamma is {}, expected at least 0", who, gamma);
  TR_CHECK(temperature > 0 && std::isfinite(temperature),
           "{}: temperature is {}, expected a positive number", who, temperature);
}

Loss operator+(Loss a, const Loss& b) {
  a.terms.insert(a.terms.end(), b.terms.begin(), b.terms.end());
  return a;
}

Loss operator*(double weight, Loss loss) {
  for (LossTerm& term : loss.terms) term.weight *= weight;
  return loss;
}

std::string Loss::name() const {
  std::string name;
  for (const LossTerm& term : terms) name += (name.empty() ? "" : "+") + called(term);
  return name;
}

std::string Loss::text() const {
  std::string text;
  for (const LossTerm& term : terms) text += (text.empty() ? "" : "+") + text_of(term);
  return text;
}

void Loss::validate() const {
  TR_CHECK(!terms.empty(),
           "loss: it has no term, expected a loss such as CrossEntropyLoss, MSELoss or OwnLoss");
  for (const LossTerm& term : terms) term.validate();
}

std::vector<std::string> fields_of(const LossTerm& term) {
  if (term.kind == Kind::OWN) return own_loss_fields(term);
  if (term.target_value || term.target_output >= 0) return {};
  return {term.field};
}

LossSpec loss_spec(const Loss& loss, int first) {
  loss.validate();
  LossSpec spec;
  spec.name = loss.name();
  for (std::size_t i = 0; i < loss.terms.size(); ++i) {
    const LossTerm& term = loss.terms[i];
    add_constants(term, first + int(i), spec);
    for (const std::string& field : fields_of(term)) {
      if (std::find(spec.fields.begin(), spec.fields.end(), field) == spec.fields.end())
        spec.fields.push_back(field);
    }
  }
  // Metrics look at the first output: it must be the one that holds class scores.
  const LossTerm& front = loss.terms.front();
  spec.classification =
      front.class_scores || (front.kind == Kind::CROSS_ENTROPY && front.output == 0);
  spec.build = [terms = loss.terms, first](GraphBuilder& builder, const LossOperands& operands) {
    TensorId sum = kNoTensor;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const TensorId loss_sum = TermBuilder(builder, terms[i], first + int(i), operands).add();
      sum = sum == kNoTensor ? loss_sum : builder.add("add", {sum, loss_sum});
    }
    return sum;
  };
  return spec;
}

std::string loss_constant_name(int term, std::string_view what) {
  return fmt::format("loss.{}.{}", term, what);
}

}  // namespace tr
