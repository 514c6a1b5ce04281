// SPDX-License-Identifier: Apache-2.0
// Stands in a build for which CMake found no header of cuDNN.
#include "backend/cuda/cudnn_info.h"

namespace tr::cuda {

LibraryInfo cudnn_info() {
  return {.name = "cuDNN",
          .version = "",
          .detail =
              "this build has no convolutions on a GPU: cudnn_graph.h was not there when it "
              "was configured (-DTR_CUDNN_INCLUDE_DIR names its folder)"};
}

}  // namespace tr::cuda
