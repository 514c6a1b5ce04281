// SPDX-License-Identifier: Apache-2.0
// Source: Simonyan, Zisserman 2014, arXiv:1409.1556, configurations A, B, D, E. Names:
// torchvision's.
#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"
#include "zoo/models.h"

namespace tr::zoo {

BluePrint vgg_features(const VggStages& convolutions, bool norm, std::int64_t width) {
  constexpr std::int64_t kTimes[] = {1, 2, 4, 8, 8};
  std::vector<BluePrint> features;
  for (std::size_t stage = 0; stage < convolutions.size(); ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      features.push_back(conv(width * kTimes[stage], 3, 1, 1, {.bias = true}));
      if (norm) features.push_back(bn());
      features.push_back(relu());
    }
    features.push_back(maxpool(2, 2, 0));
  }
  return seq(features);
}

BluePrint vgg(const VggStages& convolutions, bool norm, int num_classes) {
  const BluePrint classifier = seq(fc(4096, true), relu(), dropout(0.5f), fc(4096, true), relu(),
                                   dropout(0.5f), fc(num_classes, true));
  return seq(vgg_features(convolutions, norm).named("features"), adaptive_avgpool(7), flatten(),
             classifier.named("classifier"));
}

}  // namespace tr::zoo
