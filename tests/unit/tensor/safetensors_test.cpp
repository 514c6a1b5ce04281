// SPDX-License-Identifier: Apache-2.0
#include "renaissance/tensor/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/input_file.h"
#include "renaissance/core/error.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "tensor/safetensors_format.h"

namespace tr {
namespace {

using test::TempFolder;
using test::throws;

std::string golden_path(const std::string& name) {
  return std::string(TR_TESTS_FOLDER) + "/unit/tensor/golden/" + name + ".safetensors";
}

/// A file with this JSON text and so many bytes of data.
std::string file_of(const std::string& json, std::size_t data_bytes, char fill = 0) {
  std::string file(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) file[i] = char(json.size() >> (8 * i));
  return file + json + std::string(data_bytes, fill);
}

SafetensorsFile parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file.data(), file.size())), "test.safetensors");
}

testing::AssertionResult refused(const std::string& file, std::string_view words) {
  return throws<DataError>([&] { parse(file); }, words);
}

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < t.num_elements(); ++i) all.push_back(t.at(i));
  return all;
}

TEST(SafetensorsTest, ReadsEveryDTypeOfTheReferenceWriter) {
  const SafetensorsFile file = load_safetensors(golden_path("every_dtype"));
  EXPECT_EQ(file.tensors.size(), 10u);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  EXPECT_EQ(file.metadata.at("note"), "ä ∑ \"q\"");
  EXPECT_EQ(file.at("f32").type(), (TensorType{{2, 3}, DType::FP32}));
  EXPECT_EQ(numbers(file.at("f32")),
            (std::vector<double>{0, -1.5, 3.25, INFINITY, -INFINITY, double(1e-40f)}));
  EXPECT_EQ(file.at("f16").dtype(), DType::FP16);
  EXPECT_EQ(numbers(file.at("f16")), (std::vector<double>{0.5, -65504, 0x1p-24, INFINITY}));
  EXPECT_EQ(file.at("bf16").dtype(), DType::BF16);
  EXPECT_EQ(file.at("bf16").at(1), -3.140625);
  EXPECT_EQ(numbers(file.at("u8")), (std::vector<double>{0, 127, 255}));
  EXPECT_EQ(numbers(file.at("i8")), (std::vector<double>{-128, 0, 127}));
  EXPECT_EQ(numbers(file.at("i32")), (std::vector<double>{INT32_MIN, INT32_MAX}));
  EXPECT_EQ(file.at("i64").data<std::int64_t>()[0], INT64_MIN);
  EXPECT_EQ(file.at("i64").data<std::int64_t>()[1], INT64_MAX);
  EXPECT_EQ(numbers(file.at("bool")), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(file.at("scalar").shape(), Shape{});
  EXPECT_EQ(file.at("scalar").item(), 2.5);
  EXPECT_EQ(file.at("empty").shape(), Shape({0, 4}));
}

// The reference writer orders by element size, then by name; given that order we write its bytes.
TEST(SafetensorsTest, WritesTheBytesOfTheReferenceWriter) {
  const TempFolder folder;
  for (const std::string name : {"every_dtype", "mlp"}) {
    save_safetensors(folder.path("out"), load_safetensors(golden_path(name)));
    EXPECT_EQ(read_text(folder.path("out")), read_text(golden_path(name))) << name;
  }
}

TEST(SafetensorsTest, ReadsALinearLayerOfPyTorch) {
  const SafetensorsFile file = load_safetensors(golden_path("mlp"));
  EXPECT_TRUE(file.contains("0.weight"));
  EXPECT_FALSE(file.contains("1.weight"));
  EXPECT_EQ(file.at("0.weight").shape(), Shape({3, 4}));
  EXPECT_EQ(file.at("0.weight").at(0), -0x1.eaa8p-9);
  EXPECT_EQ(file.at("2.bias").at(1), -0x1.e6ae86p-4);
  EXPECT_TRUE(throws<InvalidArgument>([&] { file.at("0.wieght"); }, "did you mean \"0.weight\"?"));
}

TEST(SafetensorsTest, RefusesDTypesItCannotHold) {
  EXPECT_TRUE(throws<DataError>([] { load_safetensors(golden_path("unsupported_f64")); },
                                "tensor \"x\" has dtype \"F64\""));
}

TEST(SafetensorsTest, KeepsOrderNamesAndBytes) {
  SafetensorsFile file;
  file.tensors = {{"z", Tensor::uniform({3, 5}, -1, 1, 1, DType::FP16)},
                  {"a", Tensor::uniform({7}, 0, 2, 2, DType::BOOL)},
                  {"weird \"name\"\n\\ ü", Tensor::uniform({2, 2}, -1, 1, 3)},
                  {"", Tensor::full({}, 4, DType::INT64)},
                  {"none", Tensor()}};
  file.metadata = {{"b", "2"}, {"a", ""}};
  const TempFolder folder;
  save_safetensors(folder.path("x"), file);
  const SafetensorsFile back = load_safetensors(folder.path("x"));
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    const Tensor &got = back.tensors[i].tensor, &want = file.tensors[i].tensor;
    EXPECT_EQ(back.tensors[i].name, file.tensors[i].name);
    EXPECT_EQ(got.type(), want.type());
    if (want.empty()) continue;
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.num_bytes()), 0);
  }
  // The data begin at a multiple of eight, and writing again gives the same file.
  const std::string bytes = read_text(folder.path("x"));
  EXPECT_EQ((8 + std::uint8_t(bytes[0]) + 256 * std::uint8_t(bytes[1])) % 8, 0);
  save_safetensors(folder.path("y"), back);
  EXPECT_EQ(read_text(folder.path("y")), bytes);
}

TEST(SafetensorsTest, AnEmptyFileHasNoTensors) {
  EXPECT_TRUE(parse(file_of("{}", 0)).tensors.empty());
  EXPECT_TRUE(parse(file_of("{}   ", 0)).tensors.empty());
  EXPECT_EQ(parse(file_of(R"({"__metadata__":{"k":"v"}})", 0)).metadata.at("k"), "v");
}

TEST(SafetensorsTest, TheHeadersOrderIsFree) {
  const SafetensorsFile file =
      parse(file_of(R"({"late":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},
      "early":{"data_offsets":[0,1],"shape":[1],"dtype":"I8"}})",
                    3, 1));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "early");
  EXPECT_EQ(file.tensors[1].name, "late");
}

TEST(SafetensorsTest, RefusesCutFiles) {
  EXPECT_TRUE(refused("", "0 bytes, too few"));
  EXPECT_TRUE(refused("1234567", "7 bytes, too few"));
  EXPECT_TRUE(refused(std::string(8, '\0'), "does not begin with"));
  EXPECT_TRUE(
      refused(std::string("\x10\0\0\0\0\0\0\0{}", 10), "header of 16 bytes, but has only 10"));
  EXPECT_TRUE(refused(std::string(16, '\xff'), "header of 18446744073709551615 bytes, at most"));
  const std::string golden = read_text(golden_path("every_dtype"));
  for (std::size_t size = 0; size < golden.size(); ++size) {
    ASSERT_TRUE(refused(golden.substr(0, size), "test.safetensors: ")) << size;
  }
  EXPECT_TRUE(refused(golden + "x", "end at byte 75 of the data, but 76 bytes follow"));
}

TEST(SafetensorsTest, RefusesWrongPlaces) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}";
  };
  EXPECT_NO_THROW(parse(file_of(two("[0,2]", "[2,4]"), 4)));
  EXPECT_TRUE(
      refused(file_of(two("[0,2]", "[1,3]"), 4), "tensor \"b\" has data_offsets [1, 3], expected"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[3,5]"), 5), "begin at 2"));  // a hole
  EXPECT_TRUE(refused(file_of(two("[1,3]", "[3,5]"), 5), "begin at 0"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[0,2]"), 4), "begin at 2"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[2,1]"), 4), "[2, 1]"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[2,5]"), 5),
                      "3 bytes of data, which is not the size of uint8 [2]"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[2]"), 4), "has 1 data_offsets"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[2,4,6]"), 4), "has 3 data_offsets"));
  EXPECT_TRUE(refused(file_of(two("[0,2]", "[2,4]"), 3), "end at byte 4 of the data, but 3 bytes"));
}

TEST(SafetensorsTest, RefusesBadHeaders) {
  const auto tensor = [](const std::string& inside) {
    return file_of("{\"a\":{" + inside + "}}", 1);
  };
  const std::string good = R"("dtype":"U8","shape":[1],"data_offsets":[0,1])";
  EXPECT_NO_THROW(parse(tensor(good)));
  EXPECT_TRUE(refused(tensor(good + ",\"extra\":1"), "unknown key \"extra\""));
  EXPECT_TRUE(
      refused(tensor(good + ",\"dtype\":\"U8\""), "key \"dtype\" stands twice in tensor \"a\""));
  EXPECT_TRUE(refused(tensor(R"("shape":[1],"data_offsets":[0,1])"), "no key \"dtype\""));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","data_offsets":[0,1])"), "no key \"shape\""));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[1])"), "no key \"data_offsets\""));
  EXPECT_TRUE(refused(tensor(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"), "the number 8"));
  EXPECT_TRUE(
      refused(tensor(R"("dtype":"f32","shape":[1],"data_offsets":[0,1])"), "dtype \"f32\""));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":1,"data_offsets":[0,1])"), "the number 1"));
  EXPECT_TRUE(
      refused(tensor(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), "the number -1"));
  EXPECT_TRUE(
      refused(tensor(R"("dtype":"U8","shape":[1.0],"data_offsets":[0,1])"), "the number 1.0"));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[[1]],"data_offsets":[0,1])"), "a list"));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[null],"data_offsets":[0,1])"), "null"));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[1],"data_offsets":{"x":1})"), "an object"));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1])"),
                      "rank 9"));
  EXPECT_TRUE(refused(tensor(R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1])"),
                      "out of range"));
  EXPECT_TRUE(refused(
      tensor(R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1])"), "2^47"));
  EXPECT_TRUE(refused(file_of(R"({"a":1})", 0), "\"a\" is the number 1, which does not belong"));
  EXPECT_TRUE(refused(file_of(R"({"a":{},"a":{}})", 0), "no key"));
  EXPECT_TRUE(
      refused(file_of("{\"a\":{" + good + "},\"a\":{" + good + "}}", 1), "key \"a\" stands twice"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"k":1}})", 0), "the number 1"));
  EXPECT_TRUE(
      refused(file_of(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "stands twice in __metadata__"));
  EXPECT_TRUE(refused(file_of(R"({"__metadata__":{"k":{}}})", 0), "an object"));
  EXPECT_TRUE(refused(file_of("[]", 0), "does not begin with"));
  EXPECT_TRUE(refused(file_of(" {}", 0), "does not begin with"));
  EXPECT_TRUE(refused(file_of("{} x", 0), "not valid JSON"));
  EXPECT_TRUE(refused(file_of("{\"a", 0), "not valid JSON"));
  EXPECT_TRUE(refused(file_of("{\"\xff\":{" + good + "}}", 1), "not valid JSON"));
}

TEST(SafetensorsTest, ABoolIsZeroOrOne) {
  const std::string json = R"({"mask":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_NO_THROW(parse(file_of(json, 2, 1)));
  EXPECT_TRUE(refused(file_of(json, 2, 2), "element 0 of the BOOL tensor \"mask\" is 2"));
}

// The claim fails against the file's size: nothing of that size is ever asked for.
TEST(SafetensorsTest, ATerabyteClaimedIsRefusedAtOnce) {
  const TempFolder folder;
  write_file_atomically(
      folder.path("x"),
      file_of(R"({"a":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}})",
              64));
  EXPECT_TRUE(throws<DataError>([&] { load_safetensors(folder.path("x")); },
                                "end at byte 1099511627776 of the data, but 64 bytes follow"));
}

TEST(SafetensorsTest, FileErrorsNameThePath) {
  const TempFolder folder;
  EXPECT_TRUE(
      throws<DataError>([&] { load_safetensors(folder.path("none")); }, folder.path("none")));
  EXPECT_TRUE(throws<DataError>([&] { load_safetensors(folder.path()); }, "it is a folder"));
  EXPECT_TRUE(
      throws<DataError>([&] { save_safetensors(folder.path("no/x"), {}); }, folder.path("no/x")));
}

TEST(SafetensorsTest, RefusesNamesThatTheFormatCannotHold) {
  const TempFolder folder;
  const auto saving = [&](std::vector<NamedTensor> tensors) {
    return [&folder, tensors] { save_safetensors(folder.path("x"), {tensors, {}}); };
  };
  const Tensor t = Tensor::zeros({1});
  EXPECT_TRUE(throws<InvalidArgument>(saving({{"__metadata__", t}}), "the format reserves it"));
  EXPECT_TRUE(throws<InvalidArgument>(saving({{"a", t}, {"a", t}}), "two tensors are named \"a\""));
  EXPECT_TRUE(throws<InvalidArgument>(saving({{"\xff", t}}), "not UTF-8"));
}

}  // namespace
}  // namespace tr
