// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"

namespace tr {

class KernelArgs;  // internal

/// What a user's kernel sees of one launch: static facts, pointers, threads or stream. A kernel
/// allocates nothing, waits for nothing, and gives the same bytes for the same operands: how it
/// divides its work depends on shapes alone. On a GPU its launches are captured once and replayed,
/// so all of them go to stream() and no pointer is kept.
class TR_API KernelCall {
 public:
  explicit KernelCall(const KernelArgs& args) : args_(args) {}

  const Attrs& attrs() const;
  const TensorType& in_type(int i) const;
  const TensorType& out_type(int i) const;
  /// False: an optional input that was left out.
  bool has_in(int i) const;
  /// Memory of the device, dense and row-major.
  template <typename T>
  const T* in(int i) const {
    return static_cast<const T*>(in_bytes(i));
  }
  template <typename T>
  T* out(int i) const {
    return static_cast<T*>(out_bytes(i));
  }
  /// UserKernel::workspace_bytes of memory, its content undefined.
  void* workspace() const;
  /// The cudaStream_t of the launch; null on the CPU.
  void* stream() const;

  /// CPU: calls f(begin, end) for the runs of `chunk` of 0 .. count - 1, on all threads at once.
  template <typename F>
  void parallel_for(std::int64_t count, std::int64_t chunk, F&& f) const {
    using Call = std::remove_reference_t<F>;
    run_chunks(count, chunk, &f, [](void* call, std::int64_t begin, std::int64_t end) {
      (*static_cast<Call*>(call))(begin, end);
    });
  }

 private:
  const void* in_bytes(int i) const;
  void* out_bytes(int i) const;
  void run_chunks(std::int64_t count, std::int64_t chunk, void* call,
                  void (*run)(void*, std::int64_t, std::int64_t)) const;

  const KernelArgs& args_;
};

/// What runs an op on a device.
struct UserKernel {
  using Types = std::span<const TensorType>;

  std::string op = {};
  DeviceKind device = DeviceKind::CPU;
  void (*launch)(const KernelCall&) = nullptr;
  /// Empty text: it can run this node; else the reason why not. Empty function: it always can.
  std::function<std::string(const Attrs&, Types in, Types out)> refuse = {};
  /// Bytes of scratch memory that a launch needs. Empty function: none.
  std::function<std::int64_t(const Attrs&, Types in, Types out)> workspace_bytes = {};
  /// Kernels of one op are asked in the order of their priority, highest first; built-in ones have
  /// numbers around 0.
  int priority = 0;
};

/// Makes the kernel known, as "DEVICE.user.OP". Before the first compile() that uses it.
/// @throws InvalidArgument  the op has one of a user's for this device already, or launch is
/// missing.
TR_API void register_kernel(UserKernel kernel);

/// `count` elements of a floating dtype (fp32, fp16, bf16) in host memory as floats, and back,
/// rounded to nearest even. @throws InvalidArgument  another dtype.
TR_API void load_floats(DType dtype, const void* from, std::int64_t count, float* to);
TR_API void store_floats(DType dtype, const float* from, std::int64_t count, void* to);

}  // namespace tr
