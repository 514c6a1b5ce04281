// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks arithmetic that the CPU and CUDA kernels share.
#ifdef __CUDACC__
#define TR_HOST_DEVICE __host__ __device__
#else
#define TR_HOST_DEVICE
#endif
