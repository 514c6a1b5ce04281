// SPDX-License-Identifier: Apache-2.0
#include "renaissance/backend/user_kernel.h"

#include <algorithm>
#include <cstring>

#include "backend/kernel.h"
#include "core/check.h"
#include "core/format.h"
#include "core/half.h"

namespace tr {
namespace {

class PreparedUserKernel final : public PreparedKernel {
 public:
  explicit PreparedUserKernel(void (*launch)(const KernelCall&)) : launch_(launch) {}
  void run(const KernelArgs& args) const override { launch_(KernelCall(args)); }

 private:
  void (*launch_)(const KernelCall&);
};

[[noreturn]] void refuse_dtype(DType dtype) {
  throw_as<InvalidArgument>("floats are read and written as {}, expected fp32, fp16 or bf16",
                            dtype);
}

}  // namespace

const Attrs& KernelCall::attrs() const { return args_.attrs(); }
const TensorType& KernelCall::in_type(int i) const { return args_.in_type(i); }
const TensorType& KernelCall::out_type(int i) const { return args_.out_type(i); }
bool KernelCall::has_in(int i) const { return args_.has_in(i); }
void* KernelCall::workspace() const { return args_.workspace(); }
void* KernelCall::stream() const { return args_.stream(); }
const void* KernelCall::in_bytes(int i) const { return args_.in<std::byte>(i); }
void* KernelCall::out_bytes(int i) const { return args_.out<std::byte>(i); }

void KernelCall::run_chunks(std::int64_t count, std::int64_t chunk, void* call,
                            void (*run)(void*, std::int64_t, std::int64_t)) const {
  TR_CHECK(args_.pool_ != nullptr,
           "parallel_for is called on a GPU, expected launches to stream()");
  TR_CHECK(chunk >= 1, "parallel_for: chunk is {}, expected at least 1", chunk);
  const std::int64_t tasks = (count + chunk - 1) / chunk;
  if (tasks <= 1) {
    if (count > 0) run(call, 0, count);
    return;
  }
  args_.pool().parallel_for(tasks, [&](std::int64_t task, int) {
    run(call, task * chunk, std::min(count, (task + 1) * chunk));
  });
}

void register_kernel(UserKernel kernel) {
  TR_CHECK(kernel.launch != nullptr, "the {} kernel of op '{}' is registered without launch",
           kernel.device, kernel.op);
  KernelDef def;
  def.name = fmt::format("{}.user.{}", kernel.device, kernel.op);
  def.op = std::move(kernel.op);
  def.device = kernel.device;
  if (kernel.refuse) {
    def.refuse = [refuse = std::move(kernel.refuse)](const KernelQuery& query) {
      return refuse(query.attrs, query.in, query.out);
    };
  }
  if (kernel.workspace_bytes) {
    def.workspace_bytes = [bytes = std::move(kernel.workspace_bytes)](const KernelQuery& query) {
      return bytes(query.attrs, query.in, query.out);
    };
  }
  def.prepare = [launch = kernel.launch](const KernelQuery&, int) {
    return std::make_unique<PreparedUserKernel>(launch);
  };
  const KernelRegistration registered(std::move(def), kernel.priority);
}

void load_floats(DType dtype, const void* from, std::int64_t count, float* to) {
  const auto widen = [&](auto tag) {
    const auto* values = static_cast<const decltype(tag)*>(from);
    for (std::int64_t i = 0; i < count; ++i) to[i] = to_float(values[i]);
  };
  switch (dtype) {
    case DType::FP32: std::memcpy(to, from, std::size_t(count) * sizeof(float)); return;
    case DType::FP16: return widen(Half{});
    case DType::BF16: return widen(BFloat16{});
    default: refuse_dtype(dtype);
  }
}

void store_floats(DType dtype, const float* from, std::int64_t count, void* to) {
  const auto narrow = [&](auto tag) {
    auto* values = static_cast<decltype(tag)*>(to);
    for (std::int64_t i = 0; i < count; ++i) values[i] = from_float<decltype(tag)>(from[i]);
  };
  switch (dtype) {
    case DType::FP32: std::memcpy(to, from, std::size_t(count) * sizeof(float)); return;
    case DType::FP16: return narrow(Half{});
    case DType::BF16: return narrow(BFloat16{});
    default: refuse_dtype(dtype);
  }
}

}  // namespace tr
