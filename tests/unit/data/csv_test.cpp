// SPDX-License-Identifier: Apache-2.0
#include "data/formats/csv.h"

#include <gtest/gtest.h>

#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;

std::vector<std::string> cells(std::string_view text) {
  std::vector<std::string> all;
  for (const CsvRow& row : parse_csv(text, "list.csv")) {
    all.push_back(std::to_string(row.line) + "|" + row.path + "|" + row.label);
  }
  return all;
}

using Cells = std::vector<std::string>;

TEST(CsvTest, RowsAreReadAsRfc4180WritesThem) {
  EXPECT_EQ(cells("a.png,3\nb.png,4"), (Cells{"1|a.png|3", "2|b.png|4"}));
  EXPECT_EQ(cells("path,label\r\na.png,3\r\n\r\nb.png,x,more\r\n"),
            (Cells{"2|a.png|3", "4|b.png|x"}));
  EXPECT_EQ(cells("\xef\xbb\xbfpath,label\na,0\n"), (Cells{"2|a|0"}));
  EXPECT_EQ(cells("\"a,b\"\"c\nd.png\",\"0\"\ne,1"), (Cells{"1|a,b\"c\nd.png|0", "3|e|1"}));
  EXPECT_EQ(cells("a,0\npath,label\n"), (Cells{"1|a|0", "2|path|label"}));
  EXPECT_EQ(cells(" a ,0"), (Cells{"1| a |0"}));
  EXPECT_EQ(cells("\"a\rb\",0"), (Cells{"1|a\rb|0"}));
  EXPECT_EQ(cells("Path,LABEL\na,0"), (Cells{"2|a|0"}));
  EXPECT_EQ(cells("a.png,target"), (Cells{"1|a.png|target"}));
}

TEST(CsvTest, FaultsNameTheLine) {
  const auto fails = [](std::string_view text, std::string_view words) {
    return throws<DataError>([&] { parse_csv(text, "list.csv"); }, words);
  };
  EXPECT_TRUE(fails("", "list.csv: there are no samples"));
  EXPECT_TRUE(fails("path,label\n\n", "there are no samples"));
  EXPECT_TRUE(fails("a,0\nb\n", "list.csv: line 2: \"b\" has no comma"));
  EXPECT_TRUE(fails("a,\n", "line 1: the label is empty"));
  EXPECT_TRUE(fails(",1\n", "line 1: the path is empty"));
  EXPECT_TRUE(fails("a,0\n\"b,0\nc,1\n", "line 2: the quoted field that begins here does not end"));
  EXPECT_TRUE(fails("\"a\"b,0", "line 1: text follows the closing quote"));
  EXPECT_TRUE(fails("a\"b,0", "a quote stands inside a field"));
  EXPECT_TRUE(fails(std::string_view("a\0b,0", 5), "there is a NUL byte"));
  EXPECT_TRUE(fails("a,0\rb,1\r", "line 1: a carriage return stands alone"));
  for (const char* heading : {"label,path", "filename,label", "Image,Class", "id,target"}) {
    EXPECT_TRUE(
        fails(std::string(heading) + "\na,0\n",
              "line 1: the heading is \"" + std::string(heading) + "\", expected path,label"));
  }
}

TEST(CsvTest, WrittenFieldsAreReadBack) {
  for (const std::string name : {"plain", "a,b", "say \"x\"", "two\nlines", "cr\r\n", "żółw"}) {
    EXPECT_EQ(parse_csv(csv_field(name) + ",0\n", "x").front().path, name);
  }
}

}  // namespace
}  // namespace tr::data
