// SPDX-License-Identifier: Apache-2.0
#include "support/compare.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace tr::test {
namespace {

std::string index_text(const Shape& shape, std::int64_t flat) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = fmt::format("{}{}{}", flat % shape[axis], text.empty() ? "" : ", ", text);
    flat /= shape[axis];
  }
  return "[" + text + "]";
}

// Error as a multiple of what is allowed; <= 1 is close.
double badness(double got, double want, Tolerance t) {
  if (std::isnan(got) || std::isnan(want))
    return std::isnan(got) && std::isnan(want) ? 0 : INFINITY;
  if (got == want) return 0;
  const double allowed = t.atol + t.rtol * std::abs(want);
  return allowed > 0 && std::isfinite(got - want) ? std::abs(got - want) / allowed : INFINITY;
}

}  // namespace

testing::AssertionResult is_close(const Tensor& got, const Array& want, Tolerance tolerance,
                                  const std::string& what) {
  if (!(got.shape() == want.shape)) {
    return testing::AssertionFailure()
           << what << " has shape " << got.shape().str() << ", expected " << want.shape.str();
  }
  std::int64_t wrong = 0, worst = -1;
  double worst_badness = 0;
  std::string first;
  for (std::int64_t i = 0; i < got.num_elements(); ++i) {
    const double bad = badness(got.at(i), want.values[std::size_t(i)], tolerance);
    if (bad > worst_badness) worst_badness = bad, worst = i;
    if (bad <= 1) continue;
    if (++wrong <= 5) {
      first += fmt::format("\n  {}: got {:.9g}, want {:.9g}", index_text(got.shape(), i), got.at(i),
                           want.values[std::size_t(i)]);
    }
  }
  if (wrong == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << what << ": " << wrong << " of " << got.num_elements() << " elements are off (rtol "
         << tolerance.rtol << ", atol " << tolerance.atol << "); the worst, "
         << index_text(got.shape(), worst) << ", by " << worst_badness << " x what is allowed"
         << first;
}

testing::AssertionResult is_close(const Tensor& got, const Tensor& want, Tolerance tolerance,
                                  const std::string& what) {
  return is_close(got, array_of(want), tolerance, what);
}

testing::AssertionResult same_bytes(const Tensor& got, const Tensor& want,
                                    const std::string& what) {
  if (!(got.type() == want.type())) {
    return testing::AssertionFailure()
           << what << " is " << to_string(got.type()) << ", expected " << to_string(want.type());
  }
  if (std::memcmp(got.raw(), want.raw(), got.num_bytes()) == 0) return testing::AssertionSuccess();
  std::int64_t first = 0;
  const std::size_t size = size_of(got.dtype());
  const auto *a = static_cast<const std::byte*>(got.raw()),
             *b = static_cast<const std::byte*>(want.raw());
  while (std::memcmp(a + std::size_t(first) * size, b + std::size_t(first) * size, size) == 0)
    ++first;
  return testing::AssertionFailure()
         << what << ": first different bytes at element " << first << " "
         << index_text(got.shape(), first) << ": " << fmt::format("{:.9g}", got.at(first))
         << " and " << fmt::format("{:.9g}", want.at(first));
}

double rms_distance(const Tensor& got, const Tensor& want) {
  double sum = 0;
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < want.num_elements(); ++i) {
    if (!std::isfinite(want.at(i))) continue;
    const double difference = got.at(i) - want.at(i);
    sum += difference * difference;
    ++counted;
  }
  return std::sqrt(sum / double(counted));
}

testing::AssertionResult has_words(const std::string& message,
                                   const std::vector<std::string>& words) {
  std::string missing;
  for (const std::string& word : words) {
    if (message.find(word) == std::string::npos) missing += " \"" + word + "\"";
  }
  if (missing.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the message lacks" << missing << ": " << message;
}

}  // namespace tr::test
