// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

/// How often samples of each class were taken for each class. A sample with a NaN score, or a label
/// outside the classes, is not counted; of equal scores the lower class is the larger.
struct TR_API ConfusionMatrix {
  std::int64_t classes = 0;
  std::vector<std::int64_t> counts;  // [label, prediction], row by row

  bool empty() const { return counts.empty(); }
  /// Samples of class `label` that were taken for class `prediction`.
  std::int64_t at(std::int64_t label, std::int64_t prediction) const {
    return counts[std::size_t(label * classes + prediction)];
  }
  std::int64_t num_samples() const;
};

/// One class, or a mean over classes. A quotient whose divisor is 0 is 0.
struct ClassScores {
  double precision = 0;      // right predictions of the class / all predictions of it
  double recall = 0;         // right predictions of the class / its samples: its accuracy
  double f1 = 0;             // 2 precision recall / (precision + recall)
  std::int64_t samples = 0;  // of the class
};

/// Agrees with sklearn.metrics.precision_recall_fscore_support(zero_division=0) over all classes.
struct ClassReport {
  std::vector<ClassScores> classes;
  ClassScores macro;  // means over the classes
  ClassScores micro;  // from the sums over all classes: each score is the accuracy
};
TR_API ClassReport class_report(const ConfusionMatrix& matrix);

}  // namespace tr
