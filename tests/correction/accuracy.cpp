// SPDX-License-Identifier: Apache-2.0
#include "correction/accuracy.h"

#include "renaissance/task/progress.h"
#include "renaissance/zoo/zoo.h"

namespace tr::test {
namespace {

double top1_on(const std::string& dataset, const std::string& folder, const std::string& recipe,
               int epochs, std::uint64_t seed) {
  set_progress_sink({});
  Session session;
  DeepLearningTask task;
  zoo::apply_recipe(recipe, session, task);
  session.global.use_cpu().manual_seed(seed);
  session.preprocessor.dataset(dataset, folder);
  task.session(session).total_epochs(epochs);
  task.compile(CompileInfo::NONE);
  return task.run().best_top1;
}

}  // namespace

double procedural_top1(const std::string& recipe, int epochs, std::uint64_t seed) {
  return top1_on("procedural", "", recipe, epochs, seed);
}

double mnist_top1(const std::string& recipe, int epochs, std::uint64_t seed,
                  const std::string& folder) {
  return top1_on("mnist", folder, recipe, epochs, seed);
}

}  // namespace tr::test
