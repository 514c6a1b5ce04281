// SPDX-License-Identifier: Apache-2.0
// renaissance plan --lr
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "algo/schedule.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr::test {
namespace {

int run(const std::string& arguments) {
  const std::string command = std::string(TR_COMMAND) + " plan " + arguments + " >/dev/null 2>&1";
  return WEXITSTATUS(std::system(command.c_str()));
}

std::string content_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(PlanLr, TheTableHasTheRateOfEveryStep) {
  const TempFolder folder;
  const std::string path = folder.path("lr.csv");
  ASSERT_EQ(run("--lr " + path +
                " --steps-per-epoch 7 --set scheduler=one_cycle --set step_by=batch --set "
                "base_lr=0.3 --set warmup=1 --set total_epochs=5"),
            0);
  std::istringstream lines(content_of(path));
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(line, "step,epoch,lr");
  const Scheduler scheduler = OneCycleLR().base_lr(0.3).warmup(1);
  for (std::int64_t step = 0; step < 35; ++step) {
    ASSERT_TRUE(std::getline(lines, line)) << step;
    std::int64_t number = -1, epoch = -1;
    double rate = -1;
    ASSERT_EQ(std::sscanf(line.c_str(), "%ld,%ld,%lf", &number, &epoch, &rate), 3) << line;
    EXPECT_EQ(number, step);
    EXPECT_EQ(epoch, step / 7);
    EXPECT_DOUBLE_EQ(rate, lr_at(scheduler, step, 7, 5));
  }
  EXPECT_FALSE(std::getline(lines, line));
}

TEST(PlanLr, ThePictureIsOfTheRecipe) {
  const TempFolder folder;
  ASSERT_EQ(run("--set total_epochs=10 mnist-mlp --lr " + folder.path("lr.svg")), 0);
  const std::string svg = content_of(folder.path("lr.svg"));
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"")) << svg;
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  EXPECT_NE(svg.find("learning rate, mnist-mlp"), std::string::npos);
  // Ten epochs, of which the fifth and sixth have base_lr: eighteen ends of nine steps.
  const std::size_t begin = svg.find("points=\"") + 8;
  const std::string points = svg.substr(begin, svg.find('"', begin) - begin);
  EXPECT_EQ(std::count(points.begin(), points.end(), ','), 18) << points;
}

TEST(PlanLr, ANameThatXmlWouldReadIsEscaped) {
  const TempFolder folder;
  const std::string recipe = folder.path("a<b&c.toml"), picture = folder.path("lr.svg");
  std::ofstream(recipe) << "base_lr = 0.1\n[model]\nlayers = [{op = \"fc\", out_features = 10}]\n";
  ASSERT_EQ(run("'" + recipe + "' --lr " + picture), 0);
  EXPECT_NE(content_of(picture).find("a&lt;b&amp;c.toml"), std::string::npos);
}

TEST(PlanLr, RefusesWhatItCannotDraw) {
  const TempFolder folder;
  const std::string path = folder.path("lr.svg");
  EXPECT_EQ(run("--lr " + folder.path("lr.png")), 2);
  EXPECT_EQ(run("resnet50 --lr " + path), 2) << "a model has no schedule";
  EXPECT_EQ(run("--lr " + path + " --steps-per-epoch 0"), 2);
  EXPECT_EQ(run("--lr " + path + " --set scheduler=cosin"), 2);
  EXPECT_EQ(run("--lr " + path + " --set scheduler=lambda"), 2);
  EXPECT_EQ(run("--lr /no/such/folder/lr.svg"), 3);
  EXPECT_EQ(run("mnist-mlp --batch 2 --set base_lr=1"), 2) << "the plan reads no keys";
  EXPECT_EQ(run("mnist-mlp"), 2) << "neither a batch nor a plot";
}

}  // namespace
}  // namespace tr::test
