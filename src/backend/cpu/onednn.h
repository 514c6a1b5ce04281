// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/cpu/tiled_matmul.h"

namespace tr::cpu {

// The only door to oneDNN: nothing else includes its headers.

/// True if oneDNN multiplies bf16 by the processor's own instructions, not by way of fp32.
bool onednn_has_native_bf16();

/// "oneDNN 2.6.3", for records.
std::string onednn_version();

/// A matrix product whose tiles are oneDNN primitives, made here, each run on the one thread that
/// calls run_tile(), with scratchpad in memory of ours. fp32, or bf16 accumulated in fp32.
/// @throws DeviceError  oneDNN has no implementation of it.
std::unique_ptr<TiledMatmul> make_onednn_matmul(const MatmulShape& shape);

}  // namespace tr::cpu
