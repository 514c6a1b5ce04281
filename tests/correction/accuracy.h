// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tr::test {

/// Best top-1 of a recipe on procedural digits, a fraction.
double procedural_top1(const std::string& recipe, int epochs, std::uint64_t seed);

/// The same on real MNIST in `folder`.
double mnist_top1(const std::string& recipe, int epochs, std::uint64_t seed,
                  const std::string& folder);

}  // namespace tr::test
