// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include <string>

#include "backend/device_backend.h"

namespace tr::cuda {

/// The functions of cuBLASLt that are used, by address: the library is loaded when the first
/// product is prepared.
struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) algo_check = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get = nullptr;
  std::string path;

  /// @throws DeviceError  naming the call and cuBLASLt's words.
  void check(cublasStatus_t status, const char* call) const;
};

/// Loads it at the first call. @throws Unsupported  it is missing; names the places looked at.
const CublasLt& cublaslt();

/// The handle of the current device, made once and kept until the process ends.
cublasLtHandle_t cublaslt_handle();

/// What `renaissance info` shows; loads it if it is there.
LibraryInfo cublaslt_info();

}  // namespace tr::cuda
