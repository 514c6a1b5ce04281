// SPDX-License-Identifier: Apache-2.0
#include "command.h"
#include "core/check.h"
#include "core/log.h"

namespace tr::command {

void choose_data(Session& session, const std::string& dataset,
                 const std::optional<std::string>& dir) {
  if (dir) {
    if (dataset == "mnist" && !session.preprocessor.values().download && !has_mnist(*dir)) {
      throw_as<DataError>(
          "--data {}: the folder does not hold the four MNIST files (train-images-idx3-ubyte, "
          "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, raw or .gz)",
          *dir);
    }
    session.preprocessor.dataset(dataset, *dir);
    log_info("data: {} in {}", dataset, *dir);
    return;
  }
  if (dataset != "mnist") {
    throw_as<DataError>("{}: no data are given, expected --data DIR with the set's files", dataset);
  }
  const std::string folder = project_root() + "/data/mnist";
  if (has_mnist(folder)) {
    session.preprocessor.dataset("mnist", folder);
    log_info("data: mnist in {}", folder);
    return;
  }
  try {
    log_info("data: {} does not hold MNIST, downloading it", folder);
    open_dataset("mnist", folder, {.download = true});
    session.preprocessor.dataset("mnist", folder);
    log_info("data: mnist, downloaded to {}", folder);
    return;
  } catch (const DataError& error) {
    log_warning("{}", error.what());
  } catch (const Unsupported& error) {  // there is no libcurl
    log_warning("{}", error.what());
  }
  session.preprocessor.dataset("procedural", "");
  log_warning(
      "DATA: MNIST IS NOT THERE AND CANNOT BE DOWNLOADED. This run uses PROCEDURAL DIGITS, drawn "
      "by "
      "the program: its accuracy is not MNIST's. Give MNIST's folder with --data DIR.");
}

}  // namespace tr::command
