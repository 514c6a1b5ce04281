// SPDX-License-Identifier: Apache-2.0
#include "correction/accuracy.h"

#include "renaissance/task/progress.h"
#include "renaissance/zoo/zoo.h"

namespace tr::test {

double mnist_top1(const std::string& recipe, int epochs, std::uint64_t seed,
                  const std::string& folder) {
  set_progress_sink({});
  Session session;
  DeepLearningTask task;
  zoo::apply_recipe(recipe, session, task);
  session.global.use_cpu().manual_seed(seed);
  session.preprocessor.dataset("mnist", folder);
  task.session(session).total_epochs(epochs);
  task.compile(CompileInfo::NONE);
  return task.run().best_top1;
}

}  // namespace tr::test
