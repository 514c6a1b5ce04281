// SPDX-License-Identifier: Apache-2.0
// conv and its gradients: oneDNN's primitives over runs of images, each on one thread of our pool,
// so that bytes do not depend on the number of threads. The weights are put into oneDNN's layout
// once a launch. A gradient of weights is summed run by run, in the order of the images.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/onednn_conv.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/wide_rows.h"
#include "core/cpu_info.h"

namespace tr::cpu {
namespace {

/// Runs that a pass is cut into, if it is large enough: threads find work.
constexpr std::int64_t kWantedRuns = 16;
/// Multiply-adds of a run, at least: far above the cost of calling oneDNN (some microseconds).
constexpr std::int64_t kMinRunWork = 1 << 21;
/// Bytes of a weight's gradient above which its output channels are cut too: partial sums of all
/// runs stay small, and each is summed in the cache.
constexpr std::int64_t kMaxPartialBytes = 1 << 20;
constexpr std::int64_t kMaxBlocks = 8;
/// Channels of a cut, a multiple of it: whole vectors.
constexpr std::int64_t kBlockChannels = 32;
constexpr std::int64_t kLineBytes = 64;

std::int64_t wanted_runs(const ConvGeometry& g, std::int64_t most) {
  const std::int64_t by_work = g.multiply_adds() / kMinRunWork;
  return std::max<std::int64_t>(1, std::min({g.batch, most, by_work}));
}

std::int64_t floats(std::int64_t count) {
  return round_up(count * std::int64_t(sizeof(float)), kLineBytes);
}

/// Adds up places of a workspace.
class Reservation {
 public:
  std::int64_t take(std::int64_t bytes) {
    const std::int64_t at = total_;
    total_ += round_up(bytes, kLineBytes);
    return at;
  }
  std::int64_t total() const { return total_; }

 private:
  std::int64_t total_ = 0;
};

std::int64_t image_elements(const Shape& shape) {
  return shape[0] == 0 ? 0 : shape.num_elements() / shape[0];
}

/// What forward and data gradient share: an image pass that reads packed weights. `source` is what
/// it reads (x or dy), `result` what it writes (y or dx), both of the storage dtype; where it is
/// not computed in, each run widens its images in its scratch.
class ImagePass : public PreparedKernel {
 public:
  ImagePass(ConvPass pass, const ConvGeometry& geometry, DType stored, bool widen, bool bias)
      : geometry_(geometry), forward_(pass == ConvPass::FORWARD), widen_(widen), stored_(stored) {
    if (geometry.batch == 0) return;
    runs_ = make_onednn_conv(pass, geometry, widen ? DType::FP32 : stored, bias,
                             wanted_runs(geometry, kWantedRuns));
    packed_at_ = reserved_.take(runs_->packed_bytes());
    if (widen) wide_weight_at_ = reserved_.take(floats(geometry.weight_shape().num_elements()));
    const std::int64_t images = ceil_div(geometry.batch, runs_->num_runs());
    scratch_bytes_ = runs_->scratch_bytes();
    if (widen) {
      wide_source_at_ = scratch_bytes_;
      wide_result_at_ = wide_source_at_ + floats(images * source_elements());
      scratch_bytes_ = wide_result_at_ + floats(images * result_elements());
    }
    scratch_at_ = reserved_.take(runs_->num_runs() * scratch_bytes_);
  }

  std::int64_t workspace_bytes() const { return reserved_.total(); }

 protected:
  void compute(const KernelArgs& args, const std::byte* source, const std::byte* weight,
               const float* bias, std::byte* result) const {
    if (runs_ == nullptr) return;
    std::byte* packed = args.workspace() + packed_at_;
    const void* from = widened_weight(args, weight);
    for_tasks(args.pool(), runs_->num_pack_tasks(),
              [&](std::int64_t task) { runs_->pack(task, from, packed); });
    const auto size = std::int64_t(size_of(stored_));
    auto task = [&](std::int64_t run, int thread) {
      const ImageRun images = runs_->images(run);
      const std::byte* in = source + images.begin * source_elements() * size;
      std::byte* out = result + images.begin * result_elements() * size;
      std::byte* scratch = scratch_of(args, run, thread);
      ConvRuns::Operands operands{.packed = packed, .bias = bias, .scratch = scratch};
      void *source_place = const_cast<std::byte*>(in), *result_place = out;
      if (widen_) {
        source_place = scratch + wide_source_at_, result_place = scratch + wide_result_at_;
        load(in, static_cast<float*>(source_place), images.count * source_elements());
      }
      operands.x = forward_ ? source_place : result_place;
      operands.y = forward_ ? result_place : source_place;
      runs_->run(run, 0, operands);
      if (widen_) {
        store(static_cast<const float*>(result_place), out, images.count * result_elements());
      }
    };
    if (runs_->num_runs() == 1) return task(0, 0);
    args.pool().run(runs_->num_runs(), TaskRef(task));
  }

 private:
  std::int64_t source_elements() const {
    return image_elements(forward_ ? geometry_.x_shape() : geometry_.y_shape());
  }
  std::int64_t result_elements() const {
    return image_elements(forward_ ? geometry_.y_shape() : geometry_.x_shape());
  }
  /// Threads that are few reuse their scratch for run after run, so that it stays in their cache.
  std::byte* scratch_of(const KernelArgs& args, std::int64_t run, int thread) const {
    const bool by_thread = args.pool().num_threads() <= runs_->num_runs();
    return args.workspace() + scratch_at_ + (by_thread ? thread : run) * scratch_bytes_;
  }
  const void* widened_weight(const KernelArgs& args, const std::byte* weight) const {
    if (!widen_) return weight;
    auto* wide = reinterpret_cast<float*>(args.workspace() + wide_weight_at_);
    load(weight, wide, geometry_.weight_shape().num_elements());
    return wide;
  }
  void load(const std::byte* from, float* to, std::int64_t count) const {
    dispatch_float(stored_, [&](auto tag) {
      load_floats(reinterpret_cast<const typename decltype(tag)::type*>(from), to, count);
    });
  }
  void store(const float* from, std::byte* to, std::int64_t count) const {
    dispatch_float(stored_, [&](auto tag) {
      store_floats(from, reinterpret_cast<typename decltype(tag)::type*>(to), count);
    });
  }

  ConvGeometry geometry_;
  bool forward_, widen_;
  DType stored_;
  std::unique_ptr<ConvRuns> runs_;  // null: there are no images
  Reservation reserved_;
  std::int64_t packed_at_ = 0, wide_weight_at_ = 0, scratch_at_ = 0;
  std::int64_t wide_source_at_ = 0, wide_result_at_ = 0, scratch_bytes_ = 0;
};

class Conv final : public ImagePass {
 public:
  Conv(const KernelQuery& query, bool widen)
      : ImagePass(ConvPass::FORWARD, conv_geometry(query.attrs, query.in[0]), query.in[0].dtype,
                  widen, query.attrs.flag("bias")) {}
  void run(const KernelArgs& args) const override {
    compute(args, args.in<std::byte>(0), args.in<std::byte>(1),
            args.has_in(2) ? args.in<float>(2) : nullptr, args.out<std::byte>(0));
  }
};

class ConvDx final : public ImagePass {
 public:
  ConvDx(const KernelQuery& query, bool widen)
      : ImagePass(ConvPass::DATA, conv_geometry(query.attrs, query.out[0]), query.out[0].dtype,
                  widen, false) {}
  void run(const KernelArgs& args) const override {
    compute(args, args.in<std::byte>(0), args.in<std::byte>(1), nullptr, args.out<std::byte>(0));
  }
};

/// Blocks of output channels of which a gradient of W is made apart, each from a copy of its
/// channels of dy: W [O, R, S, C] has its output channels outside.
std::int64_t num_blocks(const ConvGeometry& g) {
  const std::int64_t bytes = floats(g.weight_shape().num_elements());
  std::int64_t blocks = 1;
  while (g.groups == 1 && blocks < kMaxBlocks && bytes / blocks > kMaxPartialBytes &&
         g.out_channels % (2 * blocks * kBlockChannels) == 0) {
    blocks *= 2;
  }
  return blocks;
}

class ConvDweight final : public PreparedKernel {
 public:
  ConvDweight(const KernelQuery& query, bool widen)
      : geometry_(conv_geometry(query.attrs, query.in[1])),
        stored_(query.in[1].dtype),
        widen_(widen),
        num_blocks_(num_blocks(geometry_)),
        dy_rows_(geometry_.y_shape().drop_last().num_elements(), geometry_.out_channels) {
    if (query.attrs.flag("bias")) {
      partial_bias_at_ = reserved_.take(floats(dy_rows_.num_chunks() * dy_rows_.width()));
    }
    if (geometry_.batch == 0) return;
    ConvGeometry block = geometry_;
    block.out_channels /= num_blocks_;
    const std::int64_t most = std::max<std::int64_t>(2, kWantedRuns / num_blocks_);
    runs_ = make_onednn_conv(ConvPass::WEIGHTS, block, widen ? DType::FP32 : stored_, false,
                             wanted_runs(geometry_, most), num_blocks_);
    const std::int64_t images = ceil_div(geometry_.batch, runs_->num_runs());
    scratch_bytes_ = runs_->scratch_bytes();
    if (widen) {
      wide_x_at_ = scratch_bytes_;
      scratch_bytes_ += floats(images * image_elements(block.x_shape()));
    }
    if (copies_dy()) {
      dy_copy_at_ = scratch_bytes_;
      scratch_bytes_ += floats(images * image_elements(block.y_shape()));
    }
    packed_at_ = reserved_.take(num_tasks() * packed_bytes());
    scratch_at_ = reserved_.take(num_tasks() * scratch_bytes_);
  }

  std::int64_t workspace_bytes() const { return reserved_.total(); }

  void run(const KernelArgs& args) const override {
    float* dweight = args.out<float>(0);
    dispatch_float(stored_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T *dy = args.in<T>(0), *x = args.in<T>(1);
      if (args.num_out() > 1) {
        sum_columns(args.pool(), dy_rows_, dy,
                    reinterpret_cast<float*>(args.workspace() + partial_bias_at_),
                    args.out<float>(1));
      }
      if (runs_ == nullptr) {
        std::fill_n(dweight, args.out_type(0).shape.num_elements(), 0.0f);
        return;
      }
      auto task = [&](std::int64_t index, int thread) { run_part(args, index, thread, dy, x); };
      args.pool().run(num_tasks(), TaskRef(task));
    });
    if (runs_ != nullptr) finish(args, dweight);
  }

 private:
  bool copies_dy() const { return widen_ || num_blocks_ > 1; }
  std::int64_t block_channels() const { return geometry_.out_channels / num_blocks_; }
  std::int64_t num_tasks() const { return num_blocks_ * runs_->num_runs(); }
  std::int64_t packed_bytes() const { return round_up(runs_->packed_bytes(), kLineBytes); }
  /// Partial sums of a block from run to run.
  std::byte* packed(const KernelArgs& args, std::int64_t block, std::int64_t run) const {
    return args.workspace() + packed_at_ + (run * num_blocks_ + block) * packed_bytes();
  }

  /// The gradient of a block of output channels from a run of images.
  template <typename T>
  void run_part(const KernelArgs& args, std::int64_t index, int thread, const T* dy,
                const T* x) const {
    const std::int64_t run = index / num_blocks_, block = index % num_blocks_;
    const ImageRun images = runs_->images(run);
    const bool by_thread = args.pool().num_threads() <= num_tasks();
    std::byte* scratch =
        args.workspace() + scratch_at_ + (by_thread ? thread : index) * scratch_bytes_;
    const std::int64_t x_image = image_elements(geometry_.x_shape());
    const std::int64_t rows = geometry_.out_height * geometry_.out_width;
    const T* x_run = x + images.begin * x_image;
    const T* dy_run = dy + images.begin * rows * geometry_.out_channels;
    ConvRuns::Operands operands{.packed = packed(args, block, run), .scratch = scratch};
    operands.x = const_cast<T*>(x_run);
    operands.y = const_cast<T*>(dy_run);
    if (widen_) {
      auto* wide = reinterpret_cast<float*>(scratch + wide_x_at_);
      load_floats(x_run, wide, images.count * x_image);
      operands.x = wide;
    }
    if (copies_dy()) {
      operands.y = scratch + dy_copy_at_;
      copy_channels(dy_run + block * block_channels(), images.count * rows, operands.y);
    }
    runs_->run(run, block, operands);
  }

  /// A block's channels of `rows` rows of dy, side by side, in the dtype of the computation.
  template <typename T>
  void copy_channels(const T* from, std::int64_t rows, void* to) const {
    const std::int64_t count = block_channels();
    for (std::int64_t row = 0; row < rows; ++row, from += geometry_.out_channels) {
      if (widen_) {
        load_floats(from, static_cast<float*>(to) + row * count, count);
      } else {
        std::memcpy(static_cast<T*>(to) + row * count, from, std::size_t(count) * sizeof(T));
      }
    }
  }

  /// Adds the runs of each block, then takes the sum out of oneDNN's layout.
  void finish(const KernelArgs& args, float* dweight) const {
    const std::int64_t count = num_blocks_ * packed_bytes() / std::int64_t(sizeof(float));
    auto* sums = reinterpret_cast<float*>(args.workspace() + packed_at_);
    if (runs_->num_runs() > 1) {
      for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t run = 1; run < runs_->num_runs(); ++run) {
          const float* more = sums + run * count;
          for (std::int64_t i = begin; i < end; ++i) sums[i] += more[i];
        }
      });
    }
    const std::int64_t unpacks = runs_->num_pack_tasks();
    const std::int64_t elements = geometry_.weight_shape().num_elements() / num_blocks_;
    for_tasks(args.pool(), num_blocks_ * unpacks, [&](std::int64_t task) {
      const std::int64_t block = task / unpacks;
      runs_->unpack(task % unpacks, block, packed(args, block, 0), dweight + block * elements);
    });
  }

  ConvGeometry geometry_;
  DType stored_;
  bool widen_;
  std::int64_t num_blocks_;
  WideRows dy_rows_;
  std::unique_ptr<ConvRuns> runs_;  // of one block; null: there are no images
  Reservation reserved_;
  std::int64_t partial_bias_at_ = 0, packed_at_ = 0, scratch_at_ = 0;
  std::int64_t wide_x_at_ = 0, dy_copy_at_ = 0, scratch_bytes_ = 0;
};

std::string refuse(const KernelQuery& query, bool widen) {
  const DType dtype = query.in[0].dtype;
  if (!is_floating(dtype)) return fmt::format("{} operands, expected a floating dtype", dtype);
  if (query.in[1].dtype != dtype) {
    return fmt::format("operands are {} and {}, expected one dtype", dtype, query.in[1].dtype);
  }
  if (widen) {
    return dtype == DType::FP32 ? fmt::format("{} operands need no widening", dtype) : "";
  }
  if (dtype == DType::FP16) return fmt::format("{} operands are computed in fp32", dtype);
  if (dtype == DType::BF16 && !onednn_has_native_bf16()) {
    return "the processor has no bf16 instructions (avx512_bf16)";
  }
  return "";
}

/// oneDNN 2.6's weight gradient by AMX adds the wrong pixels where the kernel is dilated.
std::string refuse_dweight(const KernelQuery& query, bool widen) {
  if (std::string reason = refuse(query, widen); !reason.empty()) return reason;
  const auto& dilation = query.attrs.ints("dilation");
  const bool dilated = std::any_of(dilation.begin(), dilation.end(), [](auto d) { return d > 1; });
  if (!widen && dilated && query.in[0].dtype == DType::BF16 && may_use_amx_bf16())
    return "the kernel is dilated and oneDNN would use AMX";
  return "";
}

/// "onednn" computes in the dtype of the operands, "widened" in fp32.
using Refuse = std::string (*)(const KernelQuery& query, bool widen);

template <typename Kernel>
KernelRegistration registration(const std::string& op, bool widen, Refuse refuse) {
  KernelDef def;
  def.op = op;
  def.name = "cpu." + op + (widen ? ".widened" : ".onednn");
  def.refuse = [widen, refuse](const KernelQuery& query) { return refuse(query, widen); };
  def.workspace_bytes = [widen](const KernelQuery& query) {
    return Kernel(query, widen).workspace_bytes();
  };
  def.prepare = [widen](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(query, widen);
  };
  return KernelRegistration(def, widen ? 0 : 10);
}

const KernelRegistration kKernels[] = {
    registration<Conv>("conv", false, refuse),
    registration<Conv>("conv", true, refuse),
    registration<ConvDx>("conv_dx", false, refuse),
    registration<ConvDx>("conv_dx", true, refuse),
    registration<ConvDweight>("conv_dweight", false, refuse_dweight),
    registration<ConvDweight>("conv_dweight", true, refuse_dweight)};

}  // namespace
}  // namespace tr::cpu
