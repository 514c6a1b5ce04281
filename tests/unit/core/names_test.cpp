// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/nearest_name.h"

namespace tr {
namespace {

TEST(NearestNameTest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("momentum", "momentmu"), 1);  // neighbours swapped
  EXPECT_EQ(edit_distance("ReLU", "relu"), 0);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(NearestNameTest, FindsTheTypoAndNothingFar) {
  const std::vector<std::string> known{"momentum", "nesterov", "weight_decay", "base_lr", "lr"};
  EXPECT_EQ(nearest_name("momentun", known), "momentum");
  EXPECT_EQ(nearest_name("weightdecay", known), "weight_decay");
  EXPECT_EQ(nearest_name("Base_LR", known), "base_lr");
  EXPECT_EQ(nearest_name("total_epochs", known), "");
  EXPECT_EQ(nearest_name(std::string(100000, 'a'), known), "");
  EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(NearestNameTest, MessageSuggestsAndLists) {
  const std::vector<std::string> known{"relu", "gelu", "tanh"};
  EXPECT_EQ(unknown_name_message("op", "rleu", known),
            "op: unknown name \"rleu\"; did you mean \"relu\"? Known: relu, gelu, tanh");
  EXPECT_EQ(unknown_name_message("op", "softmax", known),
            "op: unknown name \"softmax\"; known: relu, gelu, tanh");
  EXPECT_EQ(unknown_name_message("op", "x", {}),
            "op: unknown name \"x\"; there is none to choose from");
  const std::vector<std::string> many(20, "something");
  EXPECT_NE(unknown_name_message("op", "x", many).find("and 8 more"), std::string::npos);
}

}  // namespace
}  // namespace tr
