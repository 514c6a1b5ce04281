// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cuda/fc_product.h"

namespace tr::cuda::optimizer {

/// Matrices of one shape that are worked on together, and where each begins in the ranges.
struct MuonMatrices {
  std::int64_t rows = 0, columns = 0;
  const std::int64_t* begins = nullptr;  // in the device's memory
  std::int64_t count = 0;

  std::int64_t elements() const { return rows * columns; }
};

/// Parameters of the polynomial b A + c A A, a X + B X: torch.optim.Muon's.
constexpr float kMuonA = 3.4445f, kMuonB = -4.7750f, kMuonC = 2.0315f;

/// The products of a step of Newton-Schulz on X [rows, columns], bf16 with fp32 sums, for all
/// matrices at once: A, of X with itself on its shorter side; B = b A + c A A; a X + B X.
struct MuonProducts {
  const Product* gram = nullptr;
  const Product* square = nullptr;
  const Product* apply = nullptr;
};

/// Where matrices are worked on, one behind the other.
struct MuonBuffers {
  void *x = nullptr, *next_x = nullptr;     // bf16
  void *gram = nullptr, *square = nullptr;  // bf16
  double* norms = nullptr;                  // muon_num_sums() of each
  float* scales = nullptr;                  // one of each
  std::byte* workspace = nullptr;           // of the products
};
std::int64_t muon_num_sums(std::int64_t elements);

/// The step of matrices. Enqueues only.
void update_matrices(const KernelArgs& args, const MuonMatrices& matrices,
                     const MuonProducts& products, const MuonBuffers& buffers);
/// AdamW's step of all segments that are no matrices. `num_state_inputs` stand before the copy of
/// the weights, the two moments first.
void update_others(const KernelArgs& args, int num_state_inputs = 2);

}  // namespace tr::cuda::optimizer
