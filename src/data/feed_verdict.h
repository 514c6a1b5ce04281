// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/loader.h"

namespace tr::data {

/// What held up a phase of `seconds`: "compute bound", or "input bound: transform 78 %" if its
/// steps waited for their batches more than a tenth of the time; the stage is the one that the
/// loader's threads spent most of their time in, with its share of it.
std::string feed_verdict(const LoaderStats& stats, double seconds);

}  // namespace tr::data
