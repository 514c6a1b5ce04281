// SPDX-License-Identifier: Apache-2.0
// The command with recipes that say little, narrow terminals and numbers out of all bounds.
#include <pty.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli.h"

namespace tr {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBare =
    "dataset.name = \"mnist\"\nglobal_batch_size = 500\ntotal_epochs = 1\n[model]\n"
    "layers = [{op = \"fc\", out_features = 16}, {op = \"relu\"}, {op = \"fc\", out_features = "
    "10}]\n";

// A training takes the size of what the set gives; so does a prediction.
TEST_F(Cli, ARecipeWithoutASizeOfImagesPredicts) {
  write_mnist_files(folder_.path());
  folder_.write("bare.toml", kBare);
  const std::string recipe = folder_.path("bare.toml"),
                    weights = folder_.path("run/best_weights.safetensors");
  ASSERT_EQ(
      run("train " + recipe + " --data " + folder_.path() + " --checkpoint " + folder_.path("run"))
          .code,
      0);
  const std::string predict = "predict " + recipe + " --weights " + weights + " ";
  const Outcome images = run(predict + folder_.path("t10k-images-idx3-ubyte"));
  ASSERT_EQ(images.code, 0) << images.err;
  EXPECT_EQ(std::count(images.out.begin(), images.out.end(), '\n'), 450);
  fs::copy_file(folder_.path("t10k-images-idx3-ubyte"), folder_.path("IMAGES.X"));
  folder_.write("X.PGM", "P5 28 28 255\n" + std::string(784, 'x'));
  EXPECT_EQ(run(predict + folder_.path("IMAGES.X") + " " + folder_.path("X.PGM")).code, 0);
  fs::copy_file(weights, folder_.path("weights.st"));
  const Outcome kind = run(predict + folder_.path("weights.st"));
  EXPECT_EQ(kind.code, 3);
  EXPECT_TRUE(contains(kind.err, "is known by its name: X.safetensors, X.pgm, X.ppm")) << kind.err;
  const std::string picture = TR_SOURCE_FOLDER "/tests/cases/img/gray.jpg";
  const Outcome unknown = run(predict + picture);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "nothing tells the shape of an image")) << unknown.err;
  folder_.write("sized.toml",
                std::string("val_transforms = [\"Resize(28)\", \"CenterCrop(28)\"]\n") + kBare +
                    "input = [28, 28, 1]\n");
  const Outcome sized =
      run("predict " + folder_.path("sized.toml") + " --weights " + weights + " " + picture);
  EXPECT_EQ(sized.code, 0) << sized.err;
}

TEST_F(Cli, PredictRefusesWhatIsNoScoreOfClasses) {
  write_mnist_files(folder_.path());
  folder_.write(
      "copy.toml",
      "dataset.name = \"mnist\"\nglobal_batch_size = 500\ntotal_epochs = 1\nloss = {kind = "
      "\"mse\", field = \"image\"}\n[model]\nlayers = [{op = \"conv\", out_channels = 1, "
      "kernel = 1}]\n");
  const std::string recipe = folder_.path("copy.toml");
  ASSERT_EQ(
      run("train " + recipe + " --data " + folder_.path() + " --checkpoint " + folder_.path("run"))
          .code,
      0);
  const Outcome predict =
      run("predict " + recipe + " --weights " + folder_.path("run/best_weights.safetensors") + " " +
          folder_.path("t10k-images-idx3-ubyte"));
  EXPECT_EQ(predict.code, 2);
  EXPECT_TRUE(contains(predict.err, "expected scores of classes")) << predict.err;
}

// What a task alone reads decides how a set is opened, too.
TEST_F(Cli, EvalOpensPicturesAsItIsTold) {
  const std::string img = TR_SOURCE_FOLDER "/tests/cases/img/", set = folder_.path("set");
  for (const char* c : {"a", "b"}) {
    fs::create_directories(set + "/" + c);
    for (const char* name : {"whole.jpg", "gray.jpg", "rgba.png"})
      fs::copy_file(img + name, set + "/" + c + "/" + name);
  }
  folder_.write(
      "gray.toml",
      "global_batch_size = 2\ntotal_epochs = 1\ntrain_transforms = [\"Resize(16)\", "
      "\"CenterCrop(16)\"]\nval_transforms = [\"Resize(16)\", \"CenterCrop(16)\"]\n[dataset]\n"
      "name = \"folder\"\nval_fraction = 0.5\n[model]\nlayers = [{op = \"fc\", out_features = "
      "2}]\n");
  const std::string recipe = folder_.path("gray.toml"),
                    gray = " --set color_channels=1 --data " + set;
  const Outcome train =
      run("train " + recipe + gray + " --checkpoint " + folder_.path("run") + " --json -");
  ASSERT_EQ(train.code, 0) << train.err;
  const Outcome eval = run("eval " + recipe + gray + " --json - --weights " +
                           folder_.path("run/best_weights.safetensors"));
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(eval.out).at("val_loss"),
            nlohmann::json::parse(train.out).at("epochs")[0].at("val_loss"));
}

// Averages, clipping, counted predictions and parts that stand still take memory, or give it back.
TEST_F(Cli, PlanCountsWhatARecipeTrainsWith) {
  write_mnist_files(folder_.path());
  for (const char* key : {"", "ema_decay = 0.9", "grad_clip_norm = 1", "confusion_matrix = true",
                          "freeze = \"0.\"", "top_k = 3"}) {
    SCOPED_TRACE(key);
    folder_.write("r.toml", key + std::string("\n") + kBare + "input = [28, 28, 1]\n");
    const std::string recipe = folder_.path("r.toml");
    const Outcome plan = run("plan " + recipe + " --batch 500 --json -");
    const Outcome train = run("train " + recipe + " --json - --data " + folder_.path());
    ASSERT_EQ(plan.code, 0) << plan.err;
    ASSERT_EQ(train.code, 0) << train.err;
    const std::int64_t planned = nlohmann::json::parse(plan.out).at("peak_bytes");
    const std::int64_t taken = nlohmann::json::parse(train.out).at("peak_bytes");
    EXPECT_EQ(planned, taken);
  }
  std::string three = kBare;
  three.replace(three.find("epochs = 1"), 10, "epochs = 3");
  folder_.write("r.toml", "accumulate_steps = 2\namp = \"bf16\"\nfreeze = \"0.@1-1\"\n" + three +
                              "input = [28, 28, 1]\n");
  const Outcome told = run("plan " + folder_.path("r.toml") + " --batch 500");
  EXPECT_EQ(told.code, 0);
  for (const char* key : {"accumulate_steps", "amp", "freeze"}) {
    EXPECT_TRUE(contains(told.err, "plan: " + std::string(key) + " of ")) << told.err;
  }
}

TEST_F(Cli, ABatchBeyondTheMachinesMemoryIsRefusedWithOneThatFits) {
  write_mnist_files(folder_.path());
  const Outcome large = run("train mnist-mlp-plain --device cpu --data " + folder_.path() +
                            " --set global_batch_size=4000000000");
  EXPECT_EQ(large.code, 1);
  EXPECT_TRUE(contains(large.err, "this machine has ")) << large.err;
  EXPECT_TRUE(contains(large.err, " would fit, this is 4000000000")) << large.err;
}

// While it is looked for, batches are tried that batch norm does not take.
TEST_F(Cli, ABatchThatFitsIsFoundForBatchNormOfFeatures) {
  write_mnist_files(folder_.path());
  folder_.write(
      "r.toml",
      "dataset.name = \"mnist\"\nglobal_batch_size = 500\ntotal_epochs = 1\n[model]\ninput = "
      "[28, 28, 1]\nlayers = [{op = \"fc\", out_features = 32}, {op = \"bn\"}, {op = \"fc\", "
      "out_features = 10}]\n");
  const std::string train =
      "train " + folder_.path("r.toml") + " --data " + folder_.path() + " --set ";
  const Outcome large = run(train + "memory_limit=900000");
  EXPECT_EQ(large.code, 1) << large.err;
  EXPECT_TRUE(contains(large.err, " would fit, this is 500")) << large.err;
  const Outcome none = run(train + "memory_limit=1000");
  EXPECT_EQ(none.code, 1) << none.err;
  EXPECT_TRUE(contains(none.err, "not even a batch of one sample would fit")) << none.err;
  EXPECT_EQ(run(train + "memory_limit=900000 --set accumulate_steps=auto").code, 0);
  const Outcome plan =
      run("plan " + folder_.path("r.toml") + " --batch 500 --json - --budget 900000");
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_GT(nlohmann::json::parse(plan.out).at("largest_batch"), 1);
}

// What `train` knows by name, so do the commands that use its weights.
TEST_F(Cli, RecipesByNameEvaluateAndPredict) {
  write_mnist_files(folder_.path());
  const std::string data = " --data " + folder_.path(),
                    weights = folder_.path("run/best_weights.safetensors");
  const Outcome train = run("train mnist-mlp-plain --epochs 1 --checkpoint " + folder_.path("run") +
                            data + " --json -");
  ASSERT_EQ(train.code, 0) << train.err;
  const Outcome eval = run("eval mnist-mlp-plain --weights " + weights + data + " --json -");
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(nlohmann::json::parse(eval.out).at("val_loss"),
            nlohmann::json::parse(train.out).at("epochs")[0].at("val_loss"));
  const std::string images = " " + folder_.path("t10k-images-idx3-ubyte");
  const Outcome predict = run("predict mnist-mlp-plain --weights " + weights + images);
  ASSERT_EQ(predict.code, 0) << predict.err;
  // A model written down has no batch size: a prediction needs none.
  ASSERT_EQ(run("plan mnist-mlp --toml").code, 0);
  const std::string flat = read_text(folder_.path("out"));
  folder_.write("flat.toml", "normalization = \"mnist\"\n" + flat);
  const std::string by_file = "predict " + folder_.path("flat.toml") + " --weights " + weights;
  const Outcome written = run(by_file + images);
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out, predict.out);
  for (const char* size : {" --set global_batch_size=100", " --set local_batch_size=7"})
    EXPECT_EQ(run(by_file + size + images).out, predict.out) << size;
  for (const zoo::Recipe& recipe : zoo::recipes()) {
    const Outcome missing =
        run("eval " + recipe.name + " --weights " + folder_.path("none") + data);
    EXPECT_FALSE(contains(missing.err, "unknown name")) << missing.err;
    EXPECT_EQ(missing.code, 3) << missing.err;
  }
}

TEST_F(Cli, AFileBeyondItsLimitFailsWithWords) {
  write_mnist_files(folder_.path());
  const Outcome train = run("train mnist-mlp-plain --epochs 1 --data " + folder_.path() +
                                " --checkpoint " + folder_.path("run"),
                            "ulimit -f 400;");  // of 512 or 1024 bytes
  EXPECT_EQ(train.code, 3);
  EXPECT_TRUE(contains(train.err, "best_weights.safetensors: cannot be written: File too large"))
      << train.err;
  EXPECT_TRUE(fs::is_empty(folder_.path("run")));
}

TEST_F(Cli, SizesThatDifferBetweenSplitsAreNamed) {
  write_mnist_files(folder_.path());
  folder_.write("r.toml", std::string("train_transforms = [\"RandomCrop(20)\"]\n") + kBare);
  const Outcome outcome = run("train " + folder_.path("r.toml") + " --data " + folder_.path());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.err, "transforms as [20, 20, 1], validation's as [28, 28, 1]"))
      << outcome.err;
  folder_.write("r.toml", std::string("loss = \"mse\"\n") + kBare);
  const Outcome field = run("train " + folder_.path("r.toml") + " --data " + folder_.path());
  EXPECT_TRUE(contains(field.err, "expected one of image, label")) << field.err;
}

TEST_F(Cli, NumbersOutOfAllBoundsAreRefused) {
  const std::pair<const char*, const char*> wrong[] = {
      {"plan mnist-mlp --batch 1 --search-seconds nan", "--search-seconds is \"nan\""},
      {"plan mnist-mlp --batch 1 --search-seconds -1", "--search-seconds is \"-1\""},
      {"plan --lr x.csv --set total_epochs=1000000 --steps-per-epoch 1048576",
       "more than 2^26 rates"},
      {"plan --lr x.csv --set scheduler=exponential --set gamma=1e300 --set total_epochs=9",
       "the learning rate inf"},
      {"train mnist-mlp --set dataset.name=procedural --epochs 2147483647",
       "total_epochs is 2147483647"},
      {"train mnist-mlp --set dataset.name=procedural --set global_batch_size=4611686018427387904",
       "global_batch_size is 4611686018427387904, expected at most 2^40 samples"},
      {"train mnist-mlp --set dataset.name=procedural --set global_batch_size=1099511627776",
       "global_batch_size is 1099511627776, which makes batches of 1099511627776 samples on a "
       "rank, expected at most 137438953472: \"0\" makes [1024] of each"},
      {"train mnist-mlp --set dataset.name=procedural --set global_batch_size=1099511627776 --set "
       "accumulate_steps=4",
       "which makes batches of 274877906944 samples on a rank, expected at most 137438953472"},
      {"plan mnist-mlp --batch 9223372036854775807",
       "--batch is 9223372036854775807, expected at most 137438953472: \"0\" makes [1024] of each"},
      {"preview 'Pad(2)' --out x.png --first 9223372036854775808",
       "is no whole number from 0 to 9223372036854775807"},
      {"preview 'Pad(2)' --out x.png --first 18446744073709551616",
       "is no whole number from 0 to 9223372036854775807"},
      {"preview 'Pad(2)' --out x.png --samples 4294967297",
       "\"4294967297\" is no whole number from 0 to 2147483647"},
      {"preview 'Pad(2)' --out x.png --draws 4294967297", "whole number from 0 to 2147483647"},
      {"preview 'Pad(2)' --out x.png --seed 18446744073709551616",
       "\"18446744073709551616\" is no whole number from 0 to 18446744073709551615"},
      {"data stats procedural x --color-channels 4294967297", "whole number from 0 to 2147483647"},
      {"data stats procedural x --val-fraction 1e309",
       "\"1e309\" is out of range, expected 0 or a number of 4.9e-324 to 1.8e+308 in size"},
      {"data stats procedural x --val-fraction x", "\"x\" is not a number"},
      {"train mnist-mlp --set dataset.name=procedural --log x --json x",
       "log_file and --json are both \"x\", expected a file for each"},
      {"train mnist-mlp --set dataset.name=procedural --trace x --graph ./x",
       "trace_file and --graph are both \"./x\""},
      {"trian mnist-mlp", "command: unknown name \"trian\"; did you mean \"train\"?"},
      {"export mnist-mlp --help", "command: unknown name \"export\""},
      {"data chek mnist x", "did you mean \"check\"?"},
      {"train mnist-mlp --set freeze=0.,", "\"0.,\" names nothing before or behind a comma"},
      {"train mnist-mlp --set dataset.name=procedural --set optimizer=muon --set not_matrices=x",
       "not_matrices: no parameter's name starts with \"x\""}};
  for (const auto& [arguments, words] : wrong) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << outcome.err;
    EXPECT_TRUE(contains(outcome.err, words)) << arguments << outcome.err;
  }
  const Outcome budget = run("plan vgg11 --batch 8 --device cuda --budget 16GiB");
  const std::size_t first = budget.err.find("warning");
  EXPECT_EQ(budget.err.find("warning", first + 1), std::string::npos) << "one warning at most";
}

/// What the command writes to a terminal of so many columns.
std::string on_terminal(unsigned short columns, const char* kind, const std::string& arguments) {
  winsize size{24, columns, 0, 0};
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    ::setenv("TERM", kind, 1);
    const std::string command = "exec " TR_COMMAND " " + arguments;
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(terminal, buffer, sizeof buffer)) > 0;)
    text.append(buffer, std::size_t(count));
  int status = -1;
  ::waitpid(child, &status, 0);
  ::close(terminal);
  EXPECT_EQ(status, 0) << text;
  return text;
}

// A tick that takes two lines cannot be erased: it would fill the screen.
TEST_F(Cli, TicksFitTheTerminal) {
  write_mnist_files(folder_.path());
  const std::string train =
      "train mnist-mlp-plain --device cpu --epochs 6 --set global_batch_size=10 --data " +
      folder_.path();
  const std::string erase = "\r\033[K";
  const std::string text = on_terminal(40, "xterm", train);
  int ticks = 0;
  for (std::size_t at = text.find(erase); at != std::string::npos; at = text.find(erase, at + 1)) {
    const std::size_t begin = at + erase.size();
    const std::string line = text.substr(begin, text.find('\r', begin) - begin);
    if (!line.starts_with("epoch ")) continue;
    ++ticks;
    EXPECT_LE(line.size(), 39u) << line;
  }
  EXPECT_GT(ticks, 0) << text;
  EXPECT_EQ(on_terminal(40, "dumb", train).find('\033'), std::string::npos);
}

}  // namespace
}  // namespace tr
