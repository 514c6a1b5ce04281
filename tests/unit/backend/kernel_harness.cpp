// SPDX-License-Identifier: Apache-2.0
#include "kernel_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "backend/kernel.h"
#include "core/check.h"
#include "device/single_communicator.h"
#include "graph/op_def.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr std::size_t kGuardBytes = 256;
constexpr int kGuard = 0xa5;
constexpr int kPoison = 0xff;  // NaN in every floating dtype

/// Bytes between two guards, aligned to 64.
class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes)
      : bytes_(bytes), storage_(bytes + 2 * kGuardBytes + 64) {
    std::fill(storage_.begin(), storage_.end(), std::byte(kGuard));
    const auto start = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuardBytes;
    data_ = storage_.data() + kGuardBytes + (64 - start % 64) % 64;
    std::memset(data_, kPoison, bytes_);
  }
  std::byte* data() { return data_; }
  bool intact() const {
    const auto is_guard = [](std::byte b) { return b == std::byte(kGuard); };
    const auto* begin = storage_.data();
    return std::all_of(begin, static_cast<const std::byte*>(data_), is_guard) &&
           std::all_of(static_cast<const std::byte*>(data_) + bytes_, begin + storage_.size(),
                       is_guard);
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* data_ = nullptr;
};

/// A call with its attributes completed and its types known.
struct Prepared {
  const OpDef* def;
  Attrs attrs;
  std::vector<TensorType> in;
  std::vector<TensorType> out;

  explicit Prepared(const KernelCall& call)
      : def(&OpRegistry::instance().get(call.op)), attrs(complete_attrs(*def, call.attrs)) {
    for (const Tensor& tensor : call.inputs)
      in.push_back(tensor.empty() ? TensorType{} : tensor.type());
    // Trailing optional inputs that are missing are not handed to the rule at all.
    std::size_t given = in.size();
    while (given > 0 && call.inputs[given - 1].empty()) --given;
    out = def->infer(attrs, std::span(in).first(given));
  }
  KernelQuery query(const std::string& engine) const {
    return {attrs, in, out, EngineText(engine).config};
  }
};

class HostMemory final : public KernelMemory {
 public:
  std::byte* add(std::size_t bytes) override { return buffers_.emplace_back(bytes).data(); }
  void write(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void read(void* to, const void* from, std::size_t bytes) override { write(to, from, bytes); }
  bool intact() override {
    return std::all_of(buffers_.begin(), buffers_.end(),
                       [](const GuardedBuffer& buffer) { return buffer.intact(); });
  }

 private:
  std::deque<GuardedBuffer> buffers_;
};

const KernelDef& pick(const KernelCall& call, const KernelQuery& query, DeviceKind device) {
  for (const KernelDef* kernel : kernels_of(call.op, device)) {
    const bool takes = !kernel->refuse || kernel->refuse(query).empty();
    if (call.kernel.empty() ? takes : kernel->name == EngineText(call.kernel).kernel)
      return *kernel;
  }
  throw_as<InvalidArgument>("no kernel '{}' of {} takes the call", call.kernel, call.op);
}

}  // namespace

KernelResult run_kernel(const KernelCall& call, int num_threads) {
  ThreadPool pool(num_threads);
  HostMemory memory;
  return run_kernel_at(call, {.device = DeviceKind::CPU,
                              .memory = memory,
                              .pool = &pool,
                              .run = [](const std::function<void()>& launch) { launch(); }});
}

KernelResult run_kernel_at(const KernelCall& call, const KernelSite& site) {
  const Prepared prepared(call);
  const KernelQuery query = prepared.query(call.kernel);
  const KernelDef& kernel = pick(call, query, site.device);
  SingleCommunicator ranks;
  std::vector<void*> pointers;
  const auto add = [&](std::size_t bytes) {
    pointers.push_back(site.memory.add(bytes));
    return std::int32_t(pointers.size() - 1);
  };

  KernelArgs args;
  args.attrs_ = &prepared.attrs;
  args.in_types_ = prepared.in;
  args.out_types_ = prepared.out;
  for (const Tensor& tensor : call.inputs) {
    args.in_slots_.push_back(tensor.empty() ? -1 : add(tensor.num_bytes()));
    if (!tensor.empty()) site.memory.write(pointers.back(), tensor.raw(), tensor.num_bytes());
  }
  for (const TensorType& type : prepared.out)
    args.out_slots_.push_back(add(std::size_t(bytes_of(type))));
  args.workspace_bytes_ = kernel.workspace_bytes ? kernel.workspace_bytes(query) : 0;
  args.workspace_slot_ = add(std::size_t(args.workspace_bytes_));
  args.pointers_ = pointers.data();
  args.pool_ = site.pool;
  args.stream_ = site.stream;
  args.communicator_ = &ranks;
  const int num_threads = site.pool == nullptr ? 1 : site.pool->num_threads();
  const auto ready = kernel.prepare ? kernel.prepare(query, num_threads) : nullptr;
  site.run([&] { ready ? ready->run(args) : kernel.launch(args); });

  EXPECT_TRUE(site.memory.intact()) << kernel.name << " wrote outside a buffer";
  const auto read = [&](Tensor& to, std::int32_t slot) {
    site.memory.read(to.raw(), pointers[std::size_t(slot)], to.num_bytes());
  };
  KernelResult result;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    Tensor after = call.inputs[i];
    if (!after.empty()) {
      after = after.clone();
      read(after, args.in_slots_[i]);
      const auto& state = prepared.def->state_writes;
      if (std::find(state.begin(), state.end(), int(i)) == state.end()) {
        EXPECT_TRUE(same_bytes(after, call.inputs[i], kernel.name + ": an input that is no state"));
      }
    }
    result.inputs.push_back(after);
  }
  for (std::size_t i = 0; i < prepared.out.size(); ++i) {
    Tensor out(prepared.out[i].shape, prepared.out[i].dtype);
    read(out, args.out_slots_[i]);
    result.outputs.push_back(out);
  }
  return result;
}

std::string refusal_of(const KernelCall& call, DeviceKind device) {
  const Prepared prepared(call);
  const KernelQuery query = prepared.query(call.kernel);
  const KernelDef& kernel = pick(call, query, device);
  return kernel.refuse ? kernel.refuse(query) : "";
}

std::vector<std::string> engines_of(const KernelCall& call, DeviceKind device) {
  const Prepared prepared(call);
  const KernelQuery query = prepared.query("");
  std::vector<std::string> engines;
  for (const KernelDef* kernel : kernels_of(call.op, device)) {
    if (kernel->refuse && !kernel->refuse(query).empty()) continue;
    if (!kernel->configs) engines.push_back(kernel->name);
    if (!kernel->configs) continue;
    for (const std::string& config : kernel->configs(query)) {
      engines.push_back(Engine{kernel, config}.text());
    }
  }
  return engines;
}

bool same_bytes_for_threads(const KernelCall& call) {
  const KernelResult one = run_kernel(call, 1);
  for (const int threads : {2, 3}) {
    const KernelResult more = run_kernel(call, threads);
    for (std::size_t i = 0; i < one.outputs.size(); ++i) {
      if (!same_bytes(more.outputs[i], one.outputs[i])) return false;
    }
    for (std::size_t i = 0; i < one.inputs.size(); ++i) {
      if (!one.inputs[i].empty() && !same_bytes(more.inputs[i], one.inputs[i])) return false;
    }
  }
  return true;
}

}  // namespace tr::test
