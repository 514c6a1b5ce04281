// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "renaissance/graph/blueprint.h"
#include "renaissance/task/deep_learning_task.h"

namespace tr::test {

/// Samples of pictures [8, 8, 3] as floats, labels of four classes and targets [4], in memory.
DatasetPair small_set();
/// The same pictures as bytes, for transforms.
DatasetPair small_pictures();

/// True for keys that reach files, the network or another device, or whose value may be a number of
/// threads or samples that no test can afford: random_config leaves them alone.
bool reaches_outside(std::string_view key);

/// Whether a step of the model on small_set() is short: few operations, few parameters.
/// @throws InvalidArgument  the model does not fit those pictures.
bool is_small(const BluePrint& model);

/// Compiles and takes up to `steps` training steps on the CPU, then a validation.
/// @throws Error  as the task does.
void run_steps(DeepLearningTask& task, int steps);

}  // namespace tr::test
