// SPDX-License-Identifier: Apache-2.0
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "zoo/models.h"

namespace tr::zoo {

BluePrint mnist_mlp() {
  return seq(fc(1024, true), relu(), fc(512, true), relu(), fc(256, true), relu(), fc(10, true));
}

}  // namespace tr::zoo
