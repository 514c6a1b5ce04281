// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/loader.h"

namespace tr::data {

/// What held up a phase of `seconds`: "compute bound", or "input bound: transform 78 %" if its
/// steps waited for their batches more than a tenth of the time; the stage is the one that the
/// loader's threads spent most of their time in, with its share of it.
std::string feed_verdict(const LoaderStats& stats, double seconds);

/// "rows gone to 92 %, libjpeg 6 %, PNG 2 %": how the picture files were decoded, the most frequent
/// way first; "" if none were.
std::string decode_shares(const DecodeCounts& decoded);

}  // namespace tr::data
