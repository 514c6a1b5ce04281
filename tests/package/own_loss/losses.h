// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "renaissance.h"

/// -log p[label] - beta H(p) of each sample: cross entropy that is paid for being sure.
tr::Loss confidence_penalty(float beta);

/// sqrt(mean of (y - target)^2) over the batch.
tr::Loss root_mean_square();
