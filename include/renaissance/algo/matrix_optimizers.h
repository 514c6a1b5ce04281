// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "renaissance/algo/optimizer.h"

namespace tr {

/// Options of optimizers that treat weights of two axes (fc, embeddings) as matrices, and all other
/// parameters, convolutions' weights too, by AdamW. Both moments are kept for all parameters.
template <typename Derived>
class TR_API MatrixBuilder : public AdamBuilder<Derived> {
 public:
  /// AdamW's rate over that of the matrices.
  Derived& adam_rate(double value) { return this->with(&Optimizer::adam_rate, value); }
  /// Matrices, by prefixes of names, that AdamW moves: embeddings and the last layer in the use of
  /// Muon's authors.
  Derived& not_matrices(std::vector<std::string> prefixes) {
    return this->with(&Optimizer::not_matrices, std::move(prefixes));
  }

 protected:
  using AdamBuilder<Derived>::AdamBuilder;
};

/// Weights of two axes (fc) move along an orthogonal matrix near their momentum; all other
/// parameters by AdamW, whose rate is adam_rate() times that of the matrices.
///
///   m = momentum * m + (1 - momentum) * g;  u = nesterov ? g + momentum * (m - g) : m
///   o = 5 steps of Newton-Schulz on u / |u|: X = a X + (b A + c A A) X, A = X X^T
///   w = (1 - lr * wd) w - lr * s * o;  s = sqrt(max(1, rows / columns)), or with match_rms()
///   0.2 sqrt(max(rows, columns)): then rates and decays of AdamW fit
///
/// Products are fp32 on the CPU; on a GPU they take bf16 and sum in fp32, as PyTorch does.
/// Source: kellerjordan.github.io/posts/muon; agrees with torch.optim.Muon, whose default decay is
/// 0.1; ours is 0.
class TR_API Muon : public MatrixBuilder<Muon> {
 public:
  Muon() : MatrixBuilder(Optimizer::Kind::MUON) {}
  Muon& momentum(double value) { return with(&Optimizer::momentum, value); }
  Muon& nesterov(bool on = true) { return with(&Optimizer::nesterov, on); }
  Muon& match_rms(bool on = true) { return with(&Optimizer::match_rms, on); }
};

/// Options of Shampoo and SOAP.
template <typename Derived>
class TR_API PreconditionedBuilder : public MatrixBuilder<Derived> {
 public:
  /// Weight of the past in L and R.
  Derived& preconditioner_beta(double value) {
    return this->with(&Optimizer::preconditioner_beta, value);
  }
  /// Steps between two roots, or bases, of L and R.
  Derived& precondition_every(int steps) {
    return this->with(&Optimizer::precondition_every, steps);
  }
  /// Part of the norm of L that is added to its diagonal.
  Derived& ridge(double value) { return this->with(&Optimizer::ridge, value); }

 protected:
  using MatrixBuilder<Derived>::MatrixBuilder;
};

/// A matrix moves by its momentum between inverse fourth roots of what its gradients' rows and
/// columns have in common. Blocks of at most block_size() rows and columns are matrices of their
/// own.
///
///   L = b L + (1 - b) G G^T;  R = b R + (1 - b) G^T G      (b = 1, the default: plain sums)
///   m = b1 m + (1 - b1) G;  d = m / (1 - b1^t)
///   u = P d Q;  every N steps P = (L + ridge |L| I)^(-1/4), Q = (R + ridge |R| I)^(-1/4)
///   w = (1 - lr * wd) w - lr * s * u
///   s: 1 (NONE), |d| / |u| (SGD), |a| / |u| with Adam's step a (ADAM); norms of the whole matrix
///
/// b is preconditioner_beta(), N precondition_every(), and t a matrix's own count of steps. Roots
/// are made by a coupled Newton iteration of products in fp32. 2 (r^2 + c^2) floats a block beside
/// the moments. Source: arXiv:1802.09568; blocks, grafting and the iteration: arXiv:2002.09018.
class TR_API Shampoo : public PreconditionedBuilder<Shampoo> {
 public:
  Shampoo() : PreconditionedBuilder(Optimizer::Kind::SHAMPOO) {}
  /// At compile(): @throws InvalidArgument  the matrices have more than 65536 blocks of that size.
  Shampoo& block_size(int side) { return with(&Optimizer::block_size, side); }
  Shampoo& grafting(Optimizer::Grafting value) { return with(&Optimizer::grafting, value); }
};

/// Adam in the basis of the eigenvectors of Shampoo's L and R.
///
///   m = b1 m + (1 - b1) G;  G' = P^T G Q;  v = b2 v + (1 - b2) G'^2
///   n = (P^T m Q / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps);  w = (1 - lr * wd) w - lr P n Q^T
///   L = b L + (1 - b) G G^T;  R = b R + (1 - b) G^T G
///   every N steps P = Q of the QR decomposition of (L + ridge |L| I) P, Q likewise of R
///
/// b is preconditioner_beta(), beta2 unless set. The first step of a matrix moves nothing: it
/// begins L and R and takes ten iterations of the last line from the identity (the authors' code
/// takes eigenvectors). A side longer than max_preconditioner_dim() has the identity for its basis.
/// 2 r^2 and 2 c^2 floats beside the moments. Source: arXiv:2409.11321, algorithm 3.
class TR_API SOAP : public PreconditionedBuilder<SOAP> {
 public:
  SOAP() : PreconditionedBuilder(Optimizer::Kind::SOAP) {}
  SOAP& max_preconditioner_dim(int side) { return with(&Optimizer::max_preconditioner_dim, side); }
};

extern template class OptimizerBuilder<Muon>;
extern template class OptimizerBuilder<Shampoo>;
extern template class OptimizerBuilder<SOAP>;

}  // namespace tr
