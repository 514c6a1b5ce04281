// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the files that talk to oneDNN (onednn*.cpp) share; nothing else includes this or its
// headers.

#include <oneapi/dnnl/dnnl_debug.h>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/core/dtype.h"

// As OpenMP names them; clang comes without omp.h, gcc's is not on its path.
extern "C" {
int omp_get_max_threads();
void omp_set_num_threads(int num_threads);
}

namespace tr::cpu {

/// oneDNN asks OpenMP for its number of threads; parallel work is ours, so it gets one. The
/// caller's own setting comes back afterwards.
class OneThread {
 public:
  OneThread() : former_(omp_get_max_threads()) {
    if (former_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (former_ != 1) omp_set_num_threads(former_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int former_;
};

inline dnnl::engine& onednn_engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

inline dnnl::stream& onednn_stream() {
  static dnnl::stream instance(onednn_engine());
  return instance;
}

inline dnnl::memory::data_type onednn_type(DType dtype) {
  return dtype == DType::BF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// An argument of a primitive whose address is given at each execution.
inline dnnl::memory onednn_placeholder(const dnnl::memory::desc& desc) {
  return dnnl::memory(desc, onednn_engine(), DNNL_MEMORY_NONE);
}

inline dnnl::primitive_attr onednn_user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline void onednn_check(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) {
    throw_as<DeviceError>("oneDNN: {} failed: {}", what, dnnl_status2str(status));
  }
}

/// Points argument `which` of an execution at `data`.
inline dnnl_exec_arg_t onednn_argument(int which, const dnnl::memory& memory, const void* data) {
  onednn_check(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)), "an argument");
  return {which, memory.get()};
}

}  // namespace tr::cpu
