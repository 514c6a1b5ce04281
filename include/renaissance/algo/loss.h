// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

/// One term of a loss, as plain data.
struct LossTerm {
  enum class Kind { CROSS_ENTROPY, MSE, BCE_WITH_LOGITS };

  Kind kind = Kind::CROSS_ENTROPY;
  std::string field = "label";  // the data set's field that it compares with
  int output = 0;               // which output of the model
  float label_smoothing = 0;    // CROSS_ENTROPY, in [0, 1]
};

/// What a task trains for: the sum of its terms. Every loss builder converts to it; a + b adds
/// terms. Values reported and gradients are means over the valid samples of the global batch.
struct TR_API Loss {
  std::vector<LossTerm> terms;

  std::string name() const;  // "cross_entropy", "cross_entropy+mse"
  /// @throws InvalidArgument  no term, label_smoothing outside [0, 1], output < 0 or an empty
  ///   field.
  void validate() const;
};
TR_API Loss operator+(Loss a, const Loss& b);

/// Cross entropy of class scores [N, C] with labels [N] (INT32 or INT64) or with class
/// probabilities [N, C] (FP32).
///
///   L = -(1 - s) log p[y] - (s / C) sum_c log p[c]
///   log p = log_softmax(scores), s = label_smoothing
///
/// With probabilities q the target is (1 - s) q + s / C. Agrees with torch.nn.CrossEntropyLoss.
class TR_API CrossEntropyLoss {
 public:
  /// @throws InvalidArgument  outside [0, 1].
  CrossEntropyLoss& label_smoothing(float value);
  CrossEntropyLoss& field(std::string name);   // default "label"
  CrossEntropyLoss& output(int index);         // default 0
  operator Loss() const { return {{term_}}; }  // NOLINT: implicit by design

 private:
  LossTerm term_;
};

/// Mean over a sample's elements of (y - target)^2, then over samples. Agrees with
/// torch.nn.MSELoss.
class TR_API MSELoss {
 public:
  MSELoss& field(std::string name);  // default "target"
  MSELoss& output(int index);
  operator Loss() const { return {{term_}}; }  // NOLINT: implicit by design

 private:
  LossTerm term_{LossTerm::Kind::MSE, "target"};
};

/// Mean over a sample's elements of max(x, 0) - x t + log(1 + exp(-|x|)), then over samples, for t
/// in [0, 1]. Agrees with torch.nn.BCEWithLogitsLoss.
class TR_API BCEWithLogitsLoss {
 public:
  BCEWithLogitsLoss& field(std::string name);  // default "target"
  BCEWithLogitsLoss& output(int index);
  operator Loss() const { return {{term_}}; }  // NOLINT: implicit by design

 private:
  LossTerm term_{LossTerm::Kind::BCE_WITH_LOGITS, "target"};
};

}  // namespace tr
