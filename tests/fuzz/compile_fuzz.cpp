// SPDX-License-Identifier: Apache-2.0

// Whatever a recipe file holds: an Error in words, or a task that compiles and takes two steps on a
// small set. Keys that reach files or the network, and models that are not small, are left out.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "renaissance/core/error.h"
#include "renaissance/core/log.h"
#include "renaissance/task/progress.h"
#include "support/small_run.h"
#include "zoo/recipe_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tr;
  set_progress_sink({});
  set_log_sink([](LogLevel, std::string_view) {});
  try {
    const zoo::RecipeFile file =
        zoo::parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz");
    if (!file.model || !test::is_small(*file.model)) return 0;
    Session session;
    session.global.global_batch_size(5);
    session.preprocessor.set_train_transforms(file.config.preprocessor.values().train_transforms);
    DeepLearningTask task;
    task.model(*file.model);
    if (file.has_loss) task.loss(file.config.train.loss);
    for (const auto& [key, value] : file.keys) {
      if (!test::reaches_outside(key)) task.set(key, value);
    }
    const bool pictures = !session.preprocessor.values().train_transforms.empty();
    task.session(session).dataset(pictures ? test::small_pictures() : test::small_set());
    test::run_steps(task, 2);
  } catch (const InternalError&) {
    throw;  // a fault
  } catch (const Error&) {
    return 0;  // any other exception ends the fuzzer: a fault
  }
  return 0;
}
