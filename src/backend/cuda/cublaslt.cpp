// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cublaslt.h"

#include <map>
#include <mutex>

#include "backend/cuda/check.h"
#include "backend/cuda/library.h"
#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

CublasLt load() {
  const Library library = Library::load(
      {.name = "cuBLASLt",
       .files = {fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR)},
       .install = fmt::format("CUDA {} or `pip install nvidia-cublas`", CUBLAS_VER_MAJOR)});
  CublasLt api;
  api.path = library.path();
  library.resolve("cublasLtCreate", api.create);
  library.resolve("cublasLtGetVersion", api.get_version);
  library.resolve("cublasLtGetStatusString", api.status_string);
  library.resolve("cublasLtMatmul", api.matmul);
  library.resolve("cublasLtMatmulDescCreate", api.desc_create);
  library.resolve("cublasLtMatmulDescDestroy", api.desc_destroy);
  library.resolve("cublasLtMatmulDescSetAttribute", api.desc_set);
  library.resolve("cublasLtMatrixLayoutCreate", api.layout_create);
  library.resolve("cublasLtMatrixLayoutDestroy", api.layout_destroy);
  library.resolve("cublasLtMatrixLayoutSetAttribute", api.layout_set);
  library.resolve("cublasLtMatmulPreferenceCreate", api.preference_create);
  library.resolve("cublasLtMatmulPreferenceDestroy", api.preference_destroy);
  library.resolve("cublasLtMatmulPreferenceSetAttribute", api.preference_set);
  library.resolve("cublasLtMatmulAlgoGetHeuristic", api.get_heuristic);
  library.resolve("cublasLtMatmulAlgoCheck", api.algo_check);
  library.resolve("cublasLtMatmulAlgoConfigGetAttribute", api.config_get);
  return api;
}

std::string version_text(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

void CublasLt::check(cublasStatus_t status, const char* call) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw_as<DeviceError>("{}: {}", call, status_string(status));
}

const CublasLt& cublaslt() {
  static const CublasLt api = load();  // thread-safe; tried again if it threw
  return api;
}

cublasLtHandle_t cublaslt_handle() {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  int device = 0;
  TR_CUDA(cudaGetDevice(&device));
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device];
  if (handle == nullptr) cublaslt().check(cublaslt().create(&handle), "cublasLtCreate");
  return handle;
}

LibraryInfo cublaslt_info() {
  LibraryInfo info{.name = "cuBLASLt", .version = "", .detail = ""};
  try {
    const CublasLt& api = cublaslt();
    info.version = version_text(api.get_version());
    info.detail = api.path;
  } catch (const Unsupported& missing) {
    info.detail = missing.what();
  }
  return info;
}

}  // namespace tr::cuda
