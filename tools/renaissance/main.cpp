// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>

#include <cstdio>

#include "command.h"
#include "core/cpu_info.h"
#include "core/nearest_name.h"

namespace {

constexpr const char* kFooter = R"(Examples:
  renaissance train mnist-mlp                           train on MNIST (data/mnist, else downloaded)
  renaissance train mnist-mlp --data DIR --epochs 15 --set base_lr=0.002 --set label_smoothing=0
  renaissance train recipes/mnist-mlp.toml --set seed=7    a model and its training from a file
  renaissance plan resnet50 --batch 256 --dtype fp16 --device cuda
  renaissance eval mnist-mlp --weights runs/one/best_weights.safetensors --data DIR
  renaissance data check mnist DIR

Exit codes:
  0    done
  1    memory, a device, or a fault of the library
  2    an option, name or value is wrong or contradictory
  3    a file or data set is missing, damaged, or cannot be written
  4    meaningful, but this build cannot do it (a missing kernel, no CUDA backend)
  130  ended by SIGINT after writing the checkpoint that was asked for; 143 by SIGTERM

`renaissance COMMAND --help` tells each command's options.
TR_OVERRIDE="key=value;..." in the environment wins over all of them.)";

/// A closed standard stream is opened on nothing; else the next file would get its number, and
/// progress would be written into that file.
void open_standard_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

/// Refuses a word that stands for a command and is none; CLI11 would say that one is missing.
void check_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    const std::vector<const CLI::App*> known = command->get_subcommands({});
    if (known.empty()) return;
    std::vector<std::string> names;
    command = nullptr;
    for (const CLI::App* one : known) {
      names.push_back(one->get_name());
      if (names.back() == argv[i]) command = one;
    }
    if (command == nullptr)
      throw tr::InvalidArgument(tr::unknown_name_message("command", argv[i], names));
  }
}

int report(const std::exception& error, int code) {
  std::fprintf(stderr, "renaissance: %s\n", error.what());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace tr::command;
  open_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file beyond its limit fails with words, and leaves nothing
  CLI::App app("Trains neural networks from a static description.", "renaissance");
  app.footer(kFooter);
  app.set_version_flag("--version", "renaissance " TR_VERSION);
  app.require_subcommand(1);
  int exit_code = kOk;
  add_train(app, exit_code);
  add_plan(app, exit_code);
  add_eval(app, exit_code);
  add_predict(app, exit_code);
  add_data(app, exit_code);
  add_preview(app, exit_code);
  add_info(app, exit_code);
  try {
    tr::require_supported_cpu();
    check_command(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kUsage;
  } catch (const tr::InvalidArgument& error) {
    return report(error, kUsage);
  } catch (const tr::DataError& error) {
    return report(error, kDataFailure);
  } catch (const tr::Unsupported& error) {
    return report(error, kUnsupported);
  } catch (const std::exception& error) {
    return report(error, kFailure);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "renaissance: standard output cannot be written\n");
    return kDataFailure;
  }
  return exit_code;
}
