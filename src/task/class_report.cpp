// SPDX-License-Identifier: Apache-2.0
#include "renaissance/task/class_report.h"

#include <numeric>

namespace tr {
namespace {

double quotient(std::int64_t a, std::int64_t b) { return b == 0 ? 0 : double(a) / double(b); }

ClassScores scores_of(std::int64_t right, std::int64_t predicted, std::int64_t samples) {
  return {quotient(right, predicted), quotient(right, samples),
          quotient(2 * right, predicted + samples), samples};
}

}  // namespace

std::int64_t ConfusionMatrix::num_samples() const {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

ClassReport class_report(const ConfusionMatrix& matrix) {
  ClassReport report;
  std::int64_t right = 0;
  const std::int64_t all = matrix.num_samples();
  for (std::int64_t c = 0; c < matrix.classes; ++c) {
    std::int64_t samples = 0, predicted = 0;
    for (std::int64_t other = 0; other < matrix.classes; ++other) {
      samples += matrix.at(c, other);
      predicted += matrix.at(other, c);
    }
    right += matrix.at(c, c);
    const ClassScores scores = scores_of(matrix.at(c, c), predicted, samples);
    report.classes.push_back(scores);
    report.macro.precision += scores.precision / double(matrix.classes);
    report.macro.recall += scores.recall / double(matrix.classes);
    report.macro.f1 += scores.f1 / double(matrix.classes);
  }
  report.macro.samples = all;
  report.micro = scores_of(right, all, all);
  return report;
}

}  // namespace tr
