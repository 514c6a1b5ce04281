// SPDX-License-Identifier: Apache-2.0
// What the CUDA backend decides without a device: where libraries are, which kernel takes a node.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/fc_product.h"
#include "backend/cuda/library.h"
#include "backend/executor.h"
#include "backend/kernel.h"
#include "kernel_harness.h"
#include "support/compare.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

using cuda::Library;

/// Sets a variable for its own lifetime.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
};

TEST(LibraryTest, AMissingOneIsNamedWithThePlacesAndTheRemedy) {
  const Variable path("RENAISSANCE_LIBRARY_PATH", "/first/folder:/second/folder");
  const Variable home("CUDA_HOME", "/third");
  EXPECT_TRUE(refuses(
      [] {
        Library::load({"Nothing", {"libnothing.so.1", "libnothing.so.2"}, "apt install it"});
      },
      {"Nothing", "libnothing.so.1 or libnothing.so.2", "/first/folder", "/second/folder",
       "the system's loader", "/third/lib64", "apt install it", "RENAISSANCE_LIBRARY_PATH"}));
}

TEST(LibraryTest, PlacesAreTriedInOrder) {
  const Variable path("RENAISSANCE_LIBRARY_PATH", "/first::/second");
  const std::vector<std::string> folders = cuda::library_folders();
  const auto place = [&](const std::string& folder) {
    return std::find(folders.begin(), folders.end(), folder) - folders.begin();
  };
  EXPECT_EQ(place("/first"), 0);
  EXPECT_EQ(place("/second"), 1);
  EXPECT_EQ(place(""), 3);  // after the bundle's
  EXPECT_GT(place("/usr/local/cuda/lib64"), 3);
  EXPECT_LT(place("/usr/local/cuda/lib64"), std::ptrdiff_t(folders.size()));
}

TEST(LibraryTest, PackagesOfAPythonEnvironmentAreFound) {
  const TempFolder folder;
  const std::string inner = folder.path() + "/lib/python3.11/site-packages/nvidia/cu13/lib";
  std::filesystem::create_directories(inner);
  const Variable environment("VIRTUAL_ENV", folder.path());
  const std::vector<std::string> folders = cuda::library_folders();
  EXPECT_NE(std::find(folders.begin(), folders.end(), inner), folders.end());
}

TEST(LibraryTest, PackagesBesideThePythonOfThePathAreFoundOnce) {
  const TempFolder folder;
  const std::string inner = folder.path() + "/lib/python3.12/site-packages/nvidia/cublas/lib";
  std::filesystem::create_directories(inner);
  std::filesystem::create_directories(folder.path() + "/bin");
  folder.write("bin/python3", "");
  const Variable path("PATH", "/no/such/folder:" + folder.path() + "/bin");
  const std::vector<std::string> folders = cuda::library_folders();
  EXPECT_EQ(std::count(folders.begin(), folders.end(), inner), 1);
}

TEST(LibraryTest, ALoadedOneGivesItsPathAndFunctions) {
  const Library library = Library::load({"the C library", {"libc.so.6"}, ""});
  EXPECT_NE(library.path().find("libc.so.6"), std::string::npos);
  std::size_t (*length)(const char*) = nullptr;
  library.resolve("strlen", length);
  EXPECT_EQ(length("four"), 4u);
  EXPECT_TRUE(refuses([&] { library.resolve("no_such_function", length); },
                      {"the C library", "no_such_function"}));
}

TEST(LibraryTest, CublasLtIsShownWithItsVersionOrItsAbsence) {
  const LibraryInfo info = cuda::cublaslt_info();
  EXPECT_EQ(info.name, "cuBLASLt");
  EXPECT_NE(info.detail.find("libcublasLt"), std::string::npos);
  if (!info.version.empty()) {
    EXPECT_TRUE(info.version.starts_with(std::to_string(CUBLAS_VER_MAJOR) + "."));
  }
}

TEST(CudaFcKernelTest, EachSaysWhatItRefuses) {
  const auto refusal = [](const KernelCall& call) { return refusal_of(call, DeviceKind::CUDA); };
  const Attrs plain = {{"bias", false}};
  const Tensor x = Tensor::zeros({2, 3}), weight = Tensor::zeros({4, 3});
  for (const char* kernel : {"cuda.fc.cublaslt", "cuda.fc.simt"}) {
    EXPECT_EQ(refusal({"fc", plain, {x, weight}, kernel}), "");
    EXPECT_TRUE(has_words(
        refusal(
            {"fc", {{"bias", false}, {"activation", std::string("wobble")}}, {x, weight}, kernel}),
        {"wobble"}));
  }
}

TEST(CudaFcKernelTest, EmptyProductsAreOurs) {
  const cuda::ProductShape shape{.m = 0, .n = 4, .k = 3};
  EXPECT_TRUE(has_words(cuda::cublaslt_engine().refuse(shape), {"[0, 3]", "[3, 4]", "empty"}));
  EXPECT_EQ(cuda::simt_engine().refuse(shape), "");
}

TEST(CudaFcKernelTest, Tf32IsTakenOnlyWhereItIsAllowed) {
  const auto chosen = [](const std::string& op, DType dtype, bool tf32) {
    TuningTable tuning;
    const TensorType a{Shape{4096, 512}, dtype}, b{Shape{512, 512}, dtype};
    const std::vector<TensorType> in = {a, op == "fc_dweight" ? a : b};
    const OpDef& def = OpRegistry::instance().get(op);
    const Attrs attrs = complete_attrs(def, op == "fc_dx" ? Attrs{} : Attrs{{"bias", false}});
    const auto oracle = make_kernel_oracle(DeviceKind::CUDA, tuning, {.tf32 = tf32});
    return oracle->choose(op, attrs, in, def.infer(attrs, in)).kernel;
  };
  for (const std::string op : {"fc", "fc_dx", "fc_dweight"}) {
    EXPECT_EQ(chosen(op, DType::FP32, true), "cuda." + op + ".cublaslt_tf32");
    EXPECT_EQ(chosen(op, DType::FP32, false), "cuda." + op + ".cublaslt");
    EXPECT_FALSE(chosen(op, DType::FP16, true).ends_with("_tf32")) << op;
  }
  EXPECT_TRUE(
      has_words(cuda::cublaslt_tf32_engine().refuse({.m = 2, .n = 2, .k = 2, .dtype = DType::BF16}),
                {"bf16", "expected fp32"}));
}

TEST(CudaFcKernelTest, ThinProductsAreOursUpTo64Outputs) {
  const auto refusal = [](std::int64_t outputs, DType dtype, const std::string& activation) {
    const Tensor dy = Tensor::zeros({3, outputs}, dtype), x = Tensor::zeros({3, 40}, dtype);
    const Tensor weight = Tensor::zeros({outputs, 40}, dtype);
    const std::string dw =
        refusal_of({"fc_dweight", {}, {dy, x}, "cuda.fc_dweight.thin"}, DeviceKind::CUDA);
    const std::string dx =
        refusal_of({"fc_dx", {{"activation", activation}}, {dy, weight, x}, "cuda.fc_dx.thin"},
                   DeviceKind::CUDA);
    EXPECT_EQ(dw.empty(), dx.empty()) << dw << dx;
    return dw + dx;
  };
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    EXPECT_EQ(refusal(1, dtype, "relu"), "");
    EXPECT_EQ(refusal(64, dtype, "silu"), "");
    EXPECT_TRUE(has_words(refusal(65, dtype, "relu"), {"65 outputs", "1 to 64"}));
  }
}

// Without a device the form is not known: there is room for each.
TEST(CudaFcKernelTest, WorkspaceOfAConfigIsItsFormsOwn) {
  const Attrs attrs =
      complete_attrs(OpRegistry::instance().get("fc"), {{"activation", std::string("relu")}});
  const std::vector<TensorType> in = {
      {{4096, 512}, DType::FP16}, {{256, 512}, DType::FP16}, {{256}, DType::FP32}};
  const std::vector<TensorType> out = {{{4096, 256}, DType::FP16}};
  for (const KernelDef* kernel : kernels_of("fc", DeviceKind::CUDA)) {
    if (kernel->name != "cuda.fc.cublaslt") continue;
    const auto bytes = [&](const char* config) {
      return kernel->workspace_bytes({attrs, in, out, config});
    };
    const std::int64_t product = 4096 * 256 * 4;
    EXPECT_EQ(bytes("separate") - bytes("fused"), product - 1024) << "1024: the rounded bias";
    EXPECT_EQ(bytes(""), bytes("separate"));
    EXPECT_TRUE(has_words(kernel->refuse_config({attrs, in, out, "sideways"}), {"sideways"}));
    return;
  }
  ADD_FAILURE() << "there is no cuda.fc.cublaslt";
}

TEST(CudaFcKernelTest, WorkspaceFollowsTheShape) {
  const auto bytes = cuda::cublaslt_engine().workspace_bytes;
  EXPECT_EQ(bytes({.m = 10, .n = 10, .k = 10}), 64 << 10);
  EXPECT_EQ(bytes({.m = 200, .n = 512, .k = 784}), 16 * 200 * 512 * 4);
  EXPECT_EQ(bytes({.m = 20000, .n = 4096, .k = 4096}), 32 << 20);
}

}  // namespace
}  // namespace tr::test
