// SPDX-License-Identifier: Apache-2.0
// Source: Simonyan, Zisserman 2014, arXiv:1409.1556, configuration D with batch norm. Names:
// torchvision's.
#include "renaissance/ops/conv.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/pooling.h"
#include "renaissance/ops/shape.h"
#include "zoo/models.h"

namespace tr::zoo {

BluePrint vgg16bn(int num_classes) {
  constexpr int kPool = 0;
  constexpr int kLayers[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                             kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
  std::vector<BluePrint> features;
  for (const int channels : kLayers) {
    if (channels == kPool) {
      features.push_back(maxpool(2, 2, 0));
      continue;
    }
    features.push_back(conv(channels, 3, 1, 1, {.bias = true}));
    features.push_back(bn());
    features.push_back(relu());
  }
  const BluePrint classifier = seq(fc(4096, true), relu(), dropout(0.5f), fc(4096, true), relu(),
                                   dropout(0.5f), fc(num_classes, true));
  return seq(seq(features).named("features"), flatten(), classifier.named("classifier"));
}

}  // namespace tr::zoo
