// SPDX-License-Identifier: Apache-2.0
#include "losses.h"

using namespace tr;

/// One number for each sample, [N].
Loss confidence_penalty(float beta) {
  const Value logp = log_softmax()(model_output());  // [N, C]
  const Value label = reshape({1})(input("label"));  // [N] -> [N, 1]
  const Value nll = neg()(sum({1})(gather(logp, label, 1)));
  const Value entropy = neg()(sum({1})(mul(exp()(logp), logp)));
  return OwnLoss("confidence_penalty", sub(nll, affine(beta)(entropy))).class_scores();
}

/// One number for the batch, [].
Loss root_mean_square() {
  const Value d = sub(model_output(), input("target"));
  return OwnLoss("root_mean_square", sqrt()(mean({})(square()(d))));
}
