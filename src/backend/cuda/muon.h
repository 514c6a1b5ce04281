// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cuda/fc_product.h"
#include "ops/muon.h"

namespace tr::cuda::optimizer {

/// The products of a step of Newton-Schulz on X [rows, columns], bf16 with fp32 sums: A of X with
/// itself on its shorter side (bf16), A A, and X with B (fp32).
struct MuonProducts {
  const Product* gram = nullptr;
  const Product* square = nullptr;
  const Product* apply = nullptr;
};

/// Where a matrix is worked on. `sum` holds as many elements as X, or as A if that is larger.
struct MuonBuffers {
  void* x = nullptr;     // bf16
  void* gram = nullptr;  // bf16
  float* sum = nullptr;
  double* norms = nullptr;  // muon_num_sums()
  float* scale = nullptr;
  std::byte* workspace = nullptr;  // of the products
};
std::int64_t muon_num_sums(std::int64_t elements);

/// One matrix's step. Enqueues only.
void update_matrix(const KernelArgs& args, const ops::Matrix& matrix, const MuonProducts& products,
                   const MuonBuffers& buffers);
/// AdamW's step of all segments that are no matrices. `num_state_inputs` stand before the copy of
/// the weights, the two moments first.
void update_others(const KernelArgs& args, int num_state_inputs = 2);

}  // namespace tr::cuda::optimizer
