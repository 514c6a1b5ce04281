// SPDX-License-Identifier: Apache-2.0
// The command as a user meets it: exit codes, messages, JSON.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli.h"
#include "core/input_file.h"
#include "support/dot_parser.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr {
namespace {

struct TrainingSet {
  std::string name, words;  // words of the command that choose it
};

/// The 60 000 digits that every user has; where TSan makes a step a hundred times slower, 2000 of
/// them from files in `folder`.
TrainingSet training_set([[maybe_unused]] const std::string& folder) {
#ifdef __SANITIZE_THREAD__
  write_mnist_files(folder);
  return {"mnist", " --data " + folder};
#else
  return {"procedural", " --set dataset.name=procedural"};
#endif
}

TEST_F(Cli, EvalGivesTheValidationOfTraining) {
  write_mnist_files(folder_.path());
  EXPECT_EQ(run("data check mnist " + folder_.path()).code, 0);
  const Outcome train = run("train mnist-mlp-plain --epochs 1 --data " + folder_.path() +
                            " --checkpoint " + folder_.path("run") + " --json -");
  ASSERT_EQ(train.code, 0) << train.err;
  const auto trained = nlohmann::json::parse(train.out);
  EXPECT_EQ(trained.at("data"), "mnist");
  const Outcome eval =
      run("eval mnist-mlp --weights " + folder_.path("run/best_weights.safetensors") + " --data " +
          folder_.path() + " --json -");
  ASSERT_EQ(eval.code, 0) << eval.err;
  const auto evaluated = nlohmann::json::parse(eval.out);
  EXPECT_EQ(evaluated.at("num_samples"), 450);
  for (const char* key : {"val_loss", "top1", "top5"}) {
    EXPECT_EQ(evaluated.at(key), trained.at("epochs")[0].at(key)) << key;
  }
}

TEST_F(Cli, ALossWithoutClassesShowsNoAccuracy) {
  write_mnist_files(folder_.path());
  const std::string recipe = folder_.path("copy.toml"), run_folder = folder_.path("run");
  std::ofstream(recipe) << "dataset.name = \"mnist\"\nglobal_batch_size = 500\ntotal_epochs = 1\n"
                           "loss = {kind = \"mse\", field = \"image\"}\n[model]\nlayers = [{op = "
                           "\"conv\", out_channels = 1, kernel = 1}]\n";
  const std::string data = " --data " + folder_.path();
  const Outcome train = run("train " + recipe + data + " --checkpoint " + run_folder);
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_TRUE(contains(train.out, "best epoch")) << train.out;
  EXPECT_FALSE(contains(train.out, "top-1")) << train.out;
  const Outcome eval =
      run("eval " + recipe + data + " --weights " + run_folder + "/best_weights.safetensors");
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(contains(eval.out, "450 samples: loss")) << eval.out;
  EXPECT_FALSE(contains(eval.out, "top-1")) << eval.out;
}

TEST_F(Cli, DataCommandsTellWhatASetHolds) {
  namespace fs = std::filesystem;
  const std::string img = TR_SOURCE_FOLDER "/tests/cases/img/", set = folder_.path("set");
  for (const char* c : {"a", "b"}) {
    fs::create_directories(set + "/" + c);
    for (const char* name : {"one_pixel.png", "whole.jpg", "gray.jpg", "rgba.png"}) {
      fs::copy_file(img + name, set + "/" + c + "/" + name);
    }
  }
  EXPECT_EQ(run("data check folder " + set).code, 0);
  const Outcome stats = run("data stats folder " + set + " --val-fraction 0.25 --json -");
  ASSERT_EQ(stats.code, 0) << stats.err;
  const auto told = nlohmann::json::parse(stats.out);
  EXPECT_EQ(told.at("train").at("samples"), 6);
  EXPECT_EQ(told.at("val").at("samples"), 2);
  EXPECT_EQ(told.at("train").at("classes")[1].at("name"), "b");
  EXPECT_EQ(told.at("train").at("mean").size(), 3u);
  const Outcome split = run("data split folder " + set + " --val-fraction 0.5 --seed 4 --out " +
                            folder_.path("lists") + " --json -");
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(nlohmann::json::parse(split.out).at("val"), 4);
  EXPECT_EQ(run("data check csv " + folder_.path("lists")).code, 0);

  fs::copy_file(img + "truncated_header.jpg", set + "/a/caf\xe9.jpg");  // no UTF-8 either
  const Outcome check = run("data check folder " + set + " --json -");
  EXPECT_EQ(check.code, 3);
  const auto faults = nlohmann::json::parse(check.out).at("faults");
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_TRUE(contains(faults[0].get<std::string>(), "/a/caf\\xE9.jpg")) << faults[0];
  EXPECT_EQ(run("data stats folder " + set + " --json -").code, 3);
  const Outcome own = run("data split csv " + folder_.path("lists") + "/train.csv --out " +
                          folder_.path("lists") + " --val-fraction 0.5");
  EXPECT_EQ(own.code, 2);
  EXPECT_TRUE(contains(own.err, "its train.csv is the list that is split")) << own.err;
  EXPECT_EQ(run("data stats folder " + set + " --seed 99999999999999999999").code, 2);
  EXPECT_EQ(run("data split mnist " + set + " --out " + folder_.path("x")).code, 4);
  EXPECT_EQ(
      run("data split folder " + set + " --out " + folder_.path("x") + " --val-fraction 2").code,
      2);
  EXPECT_EQ(run("data check folder " + folder_.path("nowhere")).code, 3);
  for (const std::string& command :
       {"data split folder " + set + " --val-fraction 0.5 --out " + folder_.path("x"),
        "preview 'CenterCrop(16)' --out " + folder_.path("x.png")}) {
    EXPECT_EQ(run(command + " --seed -1").code, 2) << command;  // not the seed 2^64 - 1
  }
}

TEST_F(Cli, PredictRefusesImagesOfAnotherSize) {
  const toy::Quiet quiet;
  DeepLearningTask task;
  Session session;
  zoo::apply_recipe("mnist-mlp-plain", session, task);
  session.global.use_cpu();
  task.session(session).dataset({make_procedural_digits("train", 200), nullptr});
  task.compile(CompileInfo::NONE);
  task.save_weights(folder_.path("w.safetensors"));
  folder_.write("small.pgm", "P5 8 8 255\n" + std::string(64, 'x'));
  const Outcome outcome = run("predict mnist-mlp --weights " + folder_.path("w.safetensors") + " " +
                              folder_.path("small.pgm"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(contains(outcome.err, "8x8") || contains(outcome.err, "[8, 8, 1]")) << outcome.err;
}

TEST_F(Cli, HelpTeaches) {
  const Outcome help = run("--help");
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"train", "plan", "eval", "predict", "data", "info", "Exit codes", "TR_OVERRIDE"}) {
    EXPECT_TRUE(contains(help.out, word)) << word;
  }
  const Outcome train = run("train --help");
  EXPECT_EQ(train.code, 0);
  EXPECT_TRUE(contains(train.out, "mnist-mlp-plain") && contains(train.out, "procedural"))
      << train.out;
}

TEST_F(Cli, WrongUseIsExitCode2) {
  for (const char* wrong :
       {"", "trian mnist-mlp", "train", "train mnist-mlq", "train mnist-mlp --epochs x",
        "train mnist-mlp --epochs 0 --set dataset.name=procedural",
        "train mnist-mlp --set total_epoch=1", "train mnist-mlp --set total_epochs",
        "plan resnet50 --batch 0", "plan resnet51 --batch 1", "plan resnet50 --batch 1 --dtype fp8",
        "train mnist-mlp --resume --set dataset.name=procedural",
        "train mnist-mlp --data x --set dataset.name=procedural"}) {
    const Outcome outcome = run(wrong);
    EXPECT_EQ(outcome.code, 2) << wrong << "\n" << outcome.err;
    EXPECT_FALSE(outcome.err.empty()) << wrong;
  }
  EXPECT_TRUE(contains(run("train mnist-mlp --set total_epoch=1").err, "\"total_epochs\""));
  const Outcome resumed = run("train mnist-mlp --resume --set log_every=1 --data /no/such/folder");
  EXPECT_EQ(resumed.code, 2);
  EXPECT_TRUE(contains(resumed.err, "checkpoint.dir is not set")) << resumed.err;
  EXPECT_FALSE(contains(resumed.err, "/no/such/folder")) << "data were looked for before";
  EXPECT_TRUE(contains(run("plan resnet51 --batch 1").err, "\"resnet50\""));
}

TEST_F(Cli, NumbersAreReadStrictly) {
  for (const char* wrong :
       {"train mnist-mlp --seed -1", "train mnist-mlp --seed 18446744073709551616",
        "train mnist-mlp --epochs 0x10", "train mnist-mlp --workers 1e1",
        "plan mnist-mlp --batch 99999999999999999999", "plan mnist-mlp --batch 0x2",
        "plan mnist-mlp --batch 1 --budget 99999999999999999999",
        "plan mnist-mlp --batch 1 --budget 1e9", "plan mnist-mlp --batch 1 --budget -1",
        "plan mnist-mlp --batch 1 --budget GiB", "plan mnist-mlp --batch 1 --budget 1GB",
        "plan mnist-mlp --batch 1 --recompute -1KiB", "preview 'Pad(1)' --out x.png --first 0x1",
        "preview 'Pad(1)' --out x.png --samples -1", "data stats folder . --color-channels +1",
        "data stats folder . --val-fraction 0x1p-1"}) {
    EXPECT_EQ(run(wrong).code, 2) << wrong;
  }
  // Decimal: not the octal 8.
  const auto plan = run("plan mnist-mlp --batch 010 --budget 1TiB --json -");
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_EQ(nlohmann::json::parse(plan.out).at("batch"), 10);
  EXPECT_EQ(nlohmann::json::parse(plan.out).at("budget_bytes"), std::int64_t{1} << 40);
  EXPECT_GT(nlohmann::json::parse(plan.out).at("largest_batch"), 1 << 24) << "no silent limit";
}

TEST_F(Cli, EmptyNamesAndSettingsWithoutEffectAreRefused) {
  for (const char* wrong :
       {"train mnist-mlp --log ''", "train mnist-mlp --checkpoint ''", "train mnist-mlp --data ''",
        "train mnist-mlp --json ''", "eval mnist-mlp --weights '' --data x",
        "eval mnist-mlp --weights w --data ''", "predict mnist-mlp --weights '' x",
        "eval mnist-mlp --weights w --data x --set load_weights=",
        "eval mnist-mlp --weights w --data x --set dataset.path=y",
        "predict mnist-mlp --weights w f --set dataset.name=mnist"}) {
    const Outcome outcome = run(wrong);
    EXPECT_EQ(outcome.code, 2) << wrong << outcome.err;
  }
}

TEST_F(Cli, StandardOutputByItsName) {
  const Outcome named = run("plan mnist-mlp --batch 1 --json /dev/stdout");
  ASSERT_EQ(named.code, 0) << named.err;
  EXPECT_EQ(nlohmann::json::parse(named.out).at("batch"), 1);
  const std::string command = std::string(TR_COMMAND) + " plan mnist-mlp --batch 1 --json -";
  const int status = std::system((command + " >/dev/full 2>/dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(Cli, ClosedStreamsStayOutOfFiles) {
  for (const char* split : {"train", "t10k"}) {
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
      std::filesystem::copy_file(std::string(TR_SOURCE_FOLDER "/tests/cases/idx/ok") + kind,
                                 folder_.path(std::string(split) + kind));
    }
  }
  const std::string log = folder_.path("log.jsonl");
  const std::string command = std::string(TR_COMMAND) +
                              " train mnist-mlp-plain --device cpu --epochs 1 --data " +
                              folder_.path() + " --log " + log + " <&- >&- 2>&-";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream lines(log);
  int num_lines = 0;
  for (std::string line; std::getline(lines, line); ++num_lines)
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  EXPECT_EQ(num_lines, 3) << "configuration, epoch, result";
}

TEST_F(Cli, MissingDataIsExitCode3) {
  const Outcome train = run("train mnist-mlp --data /no/such/folder");
  EXPECT_EQ(train.code, 3);
  EXPECT_TRUE(contains(train.err, "/no/such/folder")) << train.err;
  EXPECT_EQ(run("data check mnist /no/such/folder").code, 3);
  EXPECT_EQ(run("train mnist-mlp --set dataset.path=/no/such/folder").code, 3);
  EXPECT_EQ(run("plan mnist-mlp --batch 1 --json /no/such/folder/x.json").code, 3);
}

TEST_F(Cli, MissingDeviceIsExitCode4) {
  const Outcome outcome = run("train mnist-mlp --device cuda:0 --set dataset.name=procedural");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_TRUE(contains(outcome.err, "device=cpu")) << outcome.err;
}

TEST_F(Cli, PlanPrintsJsonAlone) {
  const Outcome outcome =
      run("plan mnist-mlp --batch 200 --dtype fp32 --device cpu --budget 100000000 --json -");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json.at("peak_bytes"), 0);
  EXPECT_GE(json.at("transient_bytes"), json.at("lower_bound_bytes"));
  EXPECT_GT(json.at("largest_batch"), 200);
  EXPECT_FALSE(json.at("regions").empty());
  EXPECT_FALSE(json.at("largest").empty());
  EXPECT_EQ(json.at("layers").size(), 8u) << "flatten, four fc, three relu";
}

TEST_F(Cli, PlanSaysWhereNoBatchFits) {
  const Outcome outcome = run("plan mnist-mlp --batch 8 --device cpu --budget 1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "within 1 B not even a batch of one sample fits"))
      << outcome.out;
}

TEST_F(Cli, PlanShowsTheGraphOfEitherDevice) {
  for (const char* device : {"cpu", "cuda"}) {
    SCOPED_TRACE(device);
    const std::string plan = std::string("plan mnist-mlp --batch 64 --device ") + device;
    const Outcome dot = run(plan + " --graph dot");
    ASSERT_EQ(dot.code, 0) << dot.err;
    const test::DotGraph graph = test::parse_dot(dot.out);  // alone, so that it can be piped
    EXPECT_EQ(graph.clusters,
              (std::vector<std::string>{"train_base", "eval_base", "predict_base"}));
    EXPECT_GT(graph.nodes.size(), 15u);
    EXPECT_GT(graph.edges.size(), 15u);

    const Outcome json = run(plan + " --graph json " + folder_.path("g.json") + " --json -");
    ASSERT_EQ(json.code, 0) << json.err;
    EXPECT_EQ(nlohmann::json::parse(json.out).at("batch"), 64) << "the plan itself";
    const auto graphs = nlohmann::json::parse(read_text(folder_.path("g.json"))).at("graphs");
    std::size_t nodes = 0;
    for (const auto& shown : graphs) nodes += shown.at("nodes").size();
    EXPECT_EQ(nodes, graph.nodes.size());
    const auto& first = graphs[0].at("nodes")[0];
    EXPECT_EQ(first.at("op"), "fc");
    EXPECT_EQ(first.at("stage"), "forward");
    EXPECT_GT(first.at("bytes_read"), 64 * 784 * 4);
    EXPECT_FALSE(first.contains("us")) << "nothing was measured";
  }
  EXPECT_EQ(run("plan mnist-mlp --batch 1 --graph svg").code, 2);
  EXPECT_EQ(run("plan mnist-mlp --batch 1 --graph dot --json -").code, 2);
  EXPECT_EQ(run("plan mnist-mlp --batch 1 --graph dot /no/such/folder/g.dot").code, 3);
}

TEST_F(Cli, TrainTimesItsSteps) {
  write_mnist_files(folder_.path());
  const std::string train =
      "train mnist-mlp-plain --device cpu --epochs 1 --data " + folder_.path();
  const Outcome plain = run(train + " --json -");
  ASSERT_EQ(plain.code, 0) << plain.err;
  const Outcome timed = run(train + " --stages 7 --trace " + folder_.path("t.json") + " --graph " +
                            folder_.path("g.dot") + " --json " + folder_.path("r.json"));
  ASSERT_EQ(timed.code, 0) << timed.err;
  const auto result = nlohmann::json::parse(read_text(folder_.path("r.json")));
  EXPECT_EQ(result.at("weights_sha256"), nlohmann::json::parse(plain.out).at("weights_sha256"));
  EXPECT_FALSE(nlohmann::json::parse(plain.out).contains("stages"));
  const auto& stages = result.at("stages")[0];
  EXPECT_EQ(stages.at("variant"), "train_200");
  EXPECT_EQ(stages.at("num_steps"), 7);
  EXPECT_TRUE(contains(timed.out, "train_200: 7 steps timed")) << timed.out;
  EXPECT_TRUE(contains(timed.out, "backward")) << timed.out;
  EXPECT_FALSE(nlohmann::json::parse(read_text(folder_.path("t.json"))).at("traceEvents").empty());
  const test::DotGraph graph = test::parse_dot(read_text(folder_.path("g.dot")));
  EXPECT_TRUE(contains(graph.nodes.at("n0_0"), " us")) << graph.nodes.at("n0_0");
  EXPECT_EQ(run(train + " --stages x").code, 2);
  EXPECT_EQ(run(train + " --trace /no/such/folder/t.json").code, 3);
  EXPECT_EQ(run(train + " --graph /no/such/folder/g.dot").code, 3);
}

TEST_F(Cli, TooLittleMemoryIsExitCode1WithTheBatchThatFits) {
  write_mnist_files(folder_.path());
  const std::string train = "train mnist-mlp-plain --device cpu --epochs 1 --data " +
                            folder_.path() + " --set memory_limit=30000000";
  const Outcome large = run(train + " --set global_batch_size=1500");
  EXPECT_EQ(large.code, 1) << large.err;
  const std::string words = "local_batch_size ";
  const std::size_t at = large.err.find(words);
  ASSERT_NE(at, std::string::npos) << large.err;
  const int batch = std::stoi(large.err.substr(at + words.size()));
  EXPECT_GE(batch, 1);
  EXPECT_LT(batch, 1500);
  EXPECT_EQ(run(train + " --set global_batch_size=" + std::to_string(batch)).code, 0);
}

TEST_F(Cli, TrainsPredictsAndResumes) {
  const TrainingSet set = training_set(folder_.path());
  const std::string common = "train mnist-mlp-plain --epochs 1 --seed 3 --checkpoint " +
                             folder_.path("run") + set.words + " --set global_batch_size=2000 ";
  const Outcome train = run(common + "--json -");
  ASSERT_EQ(train.code, 0) << train.err;
  const auto json = nlohmann::json::parse(train.out);
  EXPECT_EQ(json.at("data"), set.name);
  EXPECT_EQ(json.at("epochs").size(), 1u);
  EXPECT_EQ(json.at("best_epoch"), 1);
  EXPECT_EQ(json.at("weights_sha256").get<std::string>().size(), 64u);
  EXPECT_EQ(json.at("config").at("global_batch_size"), 2000);
  for (const char* key : {"best_top1", "best_top5", "images_per_s", "compile_ms", "total_s",
                          "peak_bytes", "tuning_sha256"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  const Outcome plan = run("plan mnist-mlp --batch 2000 --dtype fp32 --device cpu --json -");
  EXPECT_EQ(nlohmann::json::parse(plan.out).at("peak_bytes"), json.at("peak_bytes"))
      << "what plan says is what train takes";
  const Outcome again = run(common + "--resume --json " + folder_.path("again.json"));
  ASSERT_EQ(again.code, 0) << again.err;
  const auto resumed = nlohmann::json::parse(read_text(folder_.path("again.json")));
  EXPECT_EQ(resumed.at("weights_sha256"), json.at("weights_sha256"));
  EXPECT_EQ(resumed.at("best_top1"), json.at("best_top1"));
  EXPECT_TRUE(contains(again.out, "best top-1")) << again.out;

  const std::vector<std::uint8_t> pixels(2 * 28 * 28, 0);
  save_safetensors(
      folder_.path("x.safetensors"),
      {{{"image", Tensor::from({2, 28, 28, 1}, std::span<const std::uint8_t>(pixels))}}, {}});
  const Outcome predict =
      run("predict mnist-mlp --weights " + folder_.path("run/best_weights.safetensors") + " " +
          folder_.path("x.safetensors"));
  ASSERT_EQ(predict.code, 0) << predict.err;
  const auto line = nlohmann::json::parse(predict.out.substr(0, predict.out.find('\n')));
  EXPECT_EQ(line.at("top5").size(), 5u);
  EXPECT_EQ(line.at("top5")[0].at("class"), line.at("class"));

  std::ofstream(folder_.path("x.pgm")) << "P5\n# made by hand\n28 28 # pixels\n255\n"
                                       << std::string(28 * 28, '\0');
  const std::string weights = folder_.path("run/best_weights.safetensors");
  const std::string with = "predict mnist-mlp --weights " + weights + " ";
  EXPECT_EQ(nlohmann::json::parse(run(with + folder_.path("x.pgm")).out).at("top5"),
            line.at("top5"));
  const Outcome no_image = run(with + weights);
  EXPECT_EQ(no_image.code, 3);
  EXPECT_TRUE(contains(no_image.err, weights + ": it has no tensor \"image\"")) << no_image.err;
}

TEST_F(Cli, TrainsAndPlansARecipeFromAFile) {
  const std::string file = folder_.path("small.toml");
  std::ofstream(file) << "dataset.name = \"procedural\"\nglobal_batch_size = 500\n"
                         "total_epochs = 1\nseed = 3\nnormalization = \"mnist\"\n[model]\n"
                         "input = [28, 28, 1]\nlayers = [{op = \"fc\", out_features = 10}]\n";
  const Outcome train = run("train " + file + " --json - --set seed=4");
  ASSERT_EQ(train.code, 0) << train.err;
  const auto config = nlohmann::json::parse(train.out).at("config");
  EXPECT_EQ(config.at("seed"), 4) << "--set wins over the file";
  EXPECT_EQ(config.at("global_batch_size"), 500);
  const Outcome text = run("plan " + file + " --toml");
  EXPECT_TRUE(contains(text.out, "{name = \"0.flatten\", op = \"flatten\"}")) << text.out;
  const Outcome plan = run("plan " + file + " --batch 500 --json -");
  EXPECT_EQ(nlohmann::json::parse(plan.out).at("num_params"), 7850) << plan.err;
  EXPECT_FALSE(contains(run("plan " + file + " --batch 500").out, "parameter groups"));
  std::ofstream(folder_.path("groups.toml"))
      << "optimizer = \"adamw\"\nweight_decay = 0.5\nbase_lr = 0.25\n"
         "groups = [\"@bias: lr=0.125\", \"@weight: beta1=0.75 beta2=0.9375\"]\n[model]\n"
         "input = [28, 28, 1]\nlayers = [{op = \"fc\", out_features = 10}]\n";
  const Outcome grouped = run("plan " + folder_.path("groups.toml") + " --batch 500");
  EXPECT_TRUE(contains(grouped.out,
                       "parameter groups\n"
                       "    rate weight decay          betas tensors   parameters  first\n"
                       "     x 1          0.5   0.75, 0.9375       1         7840  0.weight\n"
                       "   x 0.5            0     0.9, 0.999       1           10  0.bias\n"))
      << grouped.out << grouped.err;
  std::ofstream(file, std::ios::app) << "\n[modle]\n";
  const Outcome wrong = run("train " + file);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(contains(wrong.err, "small.toml:10:2: key: unknown name \"modle\"")) << wrong.err;
  EXPECT_EQ(run("train " + folder_.path("none.toml")).code, 3);
}

TEST_F(Cli, ASignalWithoutCheckpointsEndsTheRunWithItsTable) {
  const std::string log = folder_.path("log"), out = folder_.path("out");
  const std::string train = std::string(TR_COMMAND) +
                            " train mnist-mlp-plain --epochs 1000 --set dataset.name=procedural "
                            "--set log_every=1 --log " +
                            log;
  const std::string script = train + " >" + out + " 2>" + folder_.path("err") +
                             " & p=$!; for i in $(seq 1200); do grep -q '\"step\"' " + log +
                             " 2>/dev/null && break; sleep 0.05; done; kill -INT $p; wait $p";
  const int status = std::system(script.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 130) << read_text(folder_.path("err"));
  EXPECT_TRUE(contains(read_text(out), "best top-1")) << read_text(out);
  EXPECT_TRUE(contains(read_text(out), "without --checkpoint nothing is kept"));
}

TEST_F(Cli, OverrideWins) {
  write_mnist_files(folder_.path());
  const Outcome outcome = run("train mnist-mlp-plain --epochs 50 --json - --data " + folder_.path(),
                              "TR_OVERRIDE='total_epochs=1;global_batch_size=1000'");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out).at("epochs").size(), 1u);
  EXPECT_TRUE(contains(outcome.err, "TR_OVERRIDE sets total_epochs")) << outcome.err;
}

TEST_F(Cli, KeysStandInTheReference) {
  const Outcome keys = run("info --keys");
  ASSERT_EQ(keys.code, 0);
  const std::string reference = read_text(TR_SOURCE_FOLDER "/docs/configuration.md");
  EXPECT_TRUE(contains(reference, keys.out))
      << "docs/configuration.md: run `renaissance info --keys` again";
}

TEST_F(Cli, PreviewWritesASheetAndWhatWasDrawn) {
  const std::string sheet = folder_.path("sheet.png");
  const Outcome made =
      run("preview 'Pad(2), RandomCrop( 28 ),RandomRotation' --samples 2 --draws 3 "
          "--seed 010 --json - --out " +
          sheet);
  ASSERT_EQ(made.code, 0) << made.err;
  const auto json = nlohmann::json::parse(made.out);
  ASSERT_EQ(json["rows"].size(), 2u);
  EXPECT_EQ(json["seed"], 10) << "decimal, not the octal 8";
  ASSERT_EQ(json["rows"][1]["draws"].size(), 3u);
  EXPECT_TRUE(contains(json["rows"][1]["draws"][2][1], "RandomCrop(28): top ")) << json;
  EXPECT_TRUE(contains(json["rows"][1]["draws"][2][2], "RandomRotation(30, fill=0): angle "));
  EXPECT_EQ(read_text(sheet).substr(1, 3), "PNG");
  EXPECT_EQ(nlohmann::json::parse(read_text(folder_.path("sheet.json"))), json);
}

/// Two classes with pictures of several kinds in each split, in a folder with any name.
void make_picture_set(const std::string& set) {
  namespace fs = std::filesystem;
  for (const char* part : {"train/a", "train/b", "val/a", "val/b"}) {
    fs::create_directories(set + "/" + part);
    for (const char* name : {"whole.jpg", "gray.jpg", "rgba.png"}) {
      fs::copy_file(std::string(TR_SOURCE_FOLDER "/tests/cases/img/") + name,
                    set + "/" + part + "/" + name);
    }
  }
}

const char* const kPictureRecipe = R"toml(
dataset.name = "folder"
device = "cpu"
global_batch_size = 3
total_epochs = 1
train_transforms = ["RandomResizedCrop(12)"]
val_transforms = ["Resize(14)", "CenterCrop(12)"]
[model]
input = [12, 12, 3]
layers = [{op = "fc", out_features = 2}]
)toml";

TEST_F(Cli, TrainsOnPicturesAndPredictsThem) {
  const std::string set = folder_.path("caf\xe9 set");  // a name that is no UTF-8
  make_picture_set(set);
  std::ofstream(folder_.path("net.toml")) << kPictureRecipe;
  const std::string net = folder_.path("net.toml") + " ";
  const Outcome train = run("train " + net + "--data '" + set + "' --json - --log '" +
                            folder_.path("l\xe9g") + "' --checkpoint " + folder_.path("run"));
  ASSERT_EQ(train.code, 0) << train.err;
  const auto config = nlohmann::json::parse(train.out).at("config");
  EXPECT_EQ(config.at("dataset.path"), folder_.path("caf\\xE9 set"));

  const std::string with =
      "predict " + net + "--weights " + folder_.path("run/best_weights.safetensors") + " --json - ";
  std::filesystem::copy_file(set + "/val/a/rgba.png", folder_.path("picture"));  // told by content
  const Outcome predict = run(with + "'" + set + "/val/a/whole.jpg' " + folder_.path("picture"));
  ASSERT_EQ(predict.code, 0) << predict.err;
  const auto rows = nlohmann::json::parse(predict.out);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].at("file"), folder_.path("caf\\xE9 set/val/a/whole.jpg"));
  EXPECT_EQ(rows[1].at("top5").size(), 2u);
  const Outcome bad = run(with + TR_SOURCE_FOLDER "/tests/cases/img/truncated_half.jpg");
  EXPECT_EQ(bad.code, 3);
  EXPECT_TRUE(contains(bad.err, "truncated_half.jpg: the JPEG data is damaged or cut")) << bad.err;
  EXPECT_EQ(run(with + folder_.path("none.png")).code, 3);
}

TEST_F(Cli, PreviewNamesThePictureThatCannotGoThroughTheChain) {
  make_picture_set(folder_.path("set"));
  std::filesystem::copy_file(TR_SOURCE_FOLDER "/tests/cases/img/thin_1x1000.png",
                             folder_.path("set/train/a/thin.png"));
  const Outcome refused = run("preview 'Resize(256), CenterCrop(224)' --dataset folder --data " +
                              folder_.path("set") + " --out " + folder_.path("sheet.png"));
  EXPECT_EQ(refused.code, 3);
  EXPECT_TRUE(contains(refused.err, "train/a/thin.png: a picture of 1000x1: Resize(256"))
      << refused.err;
}

TEST_F(Cli, PreviewShowsWhatARecipeSees) {
  make_picture_set(folder_.path("set"));
  std::filesystem::remove_all(folder_.path("set/val"));
  std::ofstream(folder_.path("net.toml"))
      << "seed = 7\ndataset.val_fraction = 0.4\ndataset.path = '" << folder_.path("set") << "'"
      << kPictureRecipe;
  const std::string with = "preview " + folder_.path("net.toml") + " --json - --samples 2 --out " +
                           folder_.path("sheet.png");
  const auto chain_of = [&](const std::string& more) {
    const Outcome made = run(with + more);
    EXPECT_EQ(made.code, 0) << made.err;
    return nlohmann::json::parse(made.out);
  };
  const auto train = chain_of(""), val = chain_of(" --split val --seed 9");
  EXPECT_EQ(train["seed"], 7);
  EXPECT_EQ(train["rows"].size(), 2u);
  EXPECT_TRUE(contains(train["chain"], "RandomResizedCrop(12")) << train;
  EXPECT_EQ(val["seed"], 9);
  EXPECT_TRUE(
      contains(val["chain"], "Resize(14, SHORT_SIDE, BILINEAR, antialias=true), CenterCro"));
  const Outcome all = run("preview " + folder_.path("net.toml") + " --json - --samples 99 --out " +
                          folder_.path("sheet.png"));
  const std::size_t rows = nlohmann::json::parse(all.out)["rows"].size();
  EXPECT_LT(rows, 99u);
  EXPECT_TRUE(contains(all.err, std::to_string(rows) + " samples, 7 draws")) << all.err;
  const Outcome none = run(with + " --dataset csv");
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(contains(none.err, "dataset csv: the path is empty")) << none.err;
}

TEST_F(Cli, PreviewRefusesWhatIsNoChain) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"RandomCropp(3)", "RandomCrop"},
      {"RandomCrop(x)", "\"x\" is no number"},
      {"RandomCrop", "size is not given, expected RandomCrop(size)"},
      {"CenterCrop(1, 2)", "2 is a value too many"},
      {"CenterCrop(1", "its parenthesis is not closed"},
      {"Resize(9, BICUBC)", "none of SHORT_SIDE"},
      {"RandomErasing, Pad(1)", "cannot stand behind it"},
      {"RandomRotation(400)", "degrees is 400"}};
  for (const auto& [chain, words] : kWrong) {
    const Outcome refused =
        run("preview '" + std::string(chain) + "' --out " + folder_.path("sheet.png"));
    EXPECT_EQ(refused.code, 2) << chain;
    EXPECT_TRUE(contains(refused.err, words)) << chain << ": " << refused.err;
  }
}

TEST_F(Cli, InfoNamesWhatThereIs) {
  const Outcome outcome = run("info --json -");
  ASSERT_EQ(outcome.code, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("devices")[0].at("kind"), "cpu");
  EXPECT_TRUE(json.at("libraries").contains("fmt"));
  EXPECT_TRUE(json.at("libraries").contains("onednn"));
  EXPECT_EQ(json.at("devices").size() == 1, json.at("cuda").at("no_gpu") != "");
  EXPECT_TRUE(contains(run("info").out, json.at("devices").size() == 1 ? "no GPU: " : "gpu 0"));
}

}  // namespace
}  // namespace tr
