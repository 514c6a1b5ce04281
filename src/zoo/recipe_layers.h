// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "renaissance/graph/blueprint.h"
#include "zoo/toml.h"

namespace tr::zoo {

/// Keys of a layer's table that are no attributes of its op.
inline constexpr std::string_view kLayerKeys[] = {"op",   "seq",   "residual", "shortcut",
                                                  "name", "times", "inputs",   "shares"};

/// What `{op = "conv", out_channels = 64, kernel = 3}` describes: an op of the registry, or one of
/// the short forms of ops/composite.h.
BluePrint read_op(const toml::table& table, int num_inputs);

/// Refuses a key of `table` that is neither known nor an attribute.
void check_keys(const toml::table& table, std::string_view what,
                std::span<const std::string_view> known);

}  // namespace tr::zoo
