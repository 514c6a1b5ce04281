// SPDX-License-Identifier: Apache-2.0
#pragma once

// Renaissance: everything that a program needs. Each header can also be included alone.

#include "renaissance/algo/initializer.h"         // IWYU pragma: export
#include "renaissance/algo/loss.h"                // IWYU pragma: export
#include "renaissance/algo/matrix_optimizers.h"   // IWYU pragma: export
#include "renaissance/algo/optimizer.h"           // IWYU pragma: export
#include "renaissance/algo/param_group.h"         // IWYU pragma: export
#include "renaissance/algo/scheduler.h"           // IWYU pragma: export
#include "renaissance/core/dtype.h"               // IWYU pragma: export
#include "renaissance/core/error.h"               // IWYU pragma: export
#include "renaissance/core/log.h"                 // IWYU pragma: export
#include "renaissance/core/project_root.h"        // IWYU pragma: export
#include "renaissance/core/shape.h"               // IWYU pragma: export
#include "renaissance/core/types.h"               // IWYU pragma: export
#include "renaissance/data/dataset.h"             // IWYU pragma: export
#include "renaissance/data/datasets.h"            // IWYU pragma: export
#include "renaissance/data/preview.h"             // IWYU pragma: export
#include "renaissance/data/transforms.h"          // IWYU pragma: export
#include "renaissance/graph/attrs.h"              // IWYU pragma: export
#include "renaissance/graph/blueprint.h"          // IWYU pragma: export
#include "renaissance/ops/composite.h"            // IWYU pragma: export
#include "renaissance/ops/conv.h"                 // IWYU pragma: export
#include "renaissance/ops/elementwise.h"          // IWYU pragma: export
#include "renaissance/ops/linear.h"               // IWYU pragma: export
#include "renaissance/ops/math.h"                 // IWYU pragma: export
#include "renaissance/ops/norm.h"                 // IWYU pragma: export
#include "renaissance/ops/pooling.h"              // IWYU pragma: export
#include "renaissance/ops/reduction.h"            // IWYU pragma: export
#include "renaissance/ops/sequence.h"             // IWYU pragma: export
#include "renaissance/ops/shape.h"                // IWYU pragma: export
#include "renaissance/task/deep_learning_task.h"  // IWYU pragma: export
#include "renaissance/task/progress.h"            // IWYU pragma: export
#include "renaissance/task/result.h"              // IWYU pragma: export
#include "renaissance/task/setting.h"             // IWYU pragma: export
#include "renaissance/task/simple_task.h"         // IWYU pragma: export
#include "renaissance/tensor/dtensor.h"           // IWYU pragma: export
#include "renaissance/tensor/safetensors.h"       // IWYU pragma: export
#include "renaissance/tensor/tensor.h"            // IWYU pragma: export
#include "renaissance/zoo/zoo.h"                  // IWYU pragma: export
