// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "correction/accuracy.h"
#include "support/test_data.h"

namespace tr::test {
namespace {

TEST(MnistAccuracy, PlainRecipeReaches98PercentInFiveEpochs) {
  const std::string folder = real_data_folder("mnist");
  if (folder.empty()) GTEST_SKIP() << "no real data set mnist";
  EXPECT_GE(mnist_top1("mnist-mlp-plain", 5, /*seed=*/0, folder), 0.980);
}

// What a linear model cannot do (ProceduralDigitsTest.ALinearModelStaysFarBelowANetwork).
TEST(ProceduralAccuracy, PlainRecipePasses97PercentInTwoEpochs) {
  EXPECT_GE(procedural_top1("mnist-mlp-plain", 2, /*seed=*/0), 0.970);
}

}  // namespace
}  // namespace tr::test
