// SPDX-License-Identifier: Apache-2.0
#pragma once

// How covariances are kept away from the end of fp32's range, once for all devices. Below 2^-126
// numbers have fewer digits, or none where hardware takes them for zero: an element of a covariance
// may be off by that much, and what a matrix of that side is off by has a norm of `side` times it.

#include <cstdint>

#include "core/host_device.h"

namespace tr::preconditioner {

/// What is added to the diagonal of a covariance of that norm: `ridge` of it, and never less than
/// the rounding of small numbers may have taken. Keeps its eigenvalues positive, and their
/// reciprocals finite.
TR_HOST_DEVICE inline float diagonal(double ridge, double norm, std::int64_t side) {
  const double least = 0x1p-126 * double(side), wanted = ridge * norm;
  return float(wanted > least ? wanted : least);
}

/// A power of two that a covariance of that norm is multiplied with before its columns are divided
/// by their lengths: QR gives the same Q, and no quotient overflows.
TR_HOST_DEVICE inline float qr_scale(double norm) { return norm < 0x1p-60 ? 0x1p+100f : 1.0f; }

}  // namespace tr::preconditioner
