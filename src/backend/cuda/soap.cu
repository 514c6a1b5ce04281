// SPDX-License-Identifier: Apache-2.0
// SOAP: all matrices of a group at once, Adam in the basis of their preconditioners' eigenvectors,
// by products in fp32; all other elements by AdamW in one pass.
#include "backend/cuda/eigenbasis.cuh"
#include "backend/cuda/muon.h"

namespace tr::cuda::optimizer {
namespace {

using ops::Matrix;

/// Dense copies of gradient and momentum; a matrix's first step has a gradient only.
__global__ __launch_bounds__(kThreads) void gather_kernel(Ranges<__half> ranges, StepInputs inputs,
                                                          float beta1, const MatrixEntry* matrices,
                                                          int count, const MatrixStep* steps,
                                                          float* gradient, float* momentum) {
  const Share share(matrices, count);
  const int flags = steps[share.matrix].flags;
  if (flags == 0) return;
  const MatrixEntry& matrix = matrices[share.matrix];
  const GradientScale scale = gradient_scale(inputs, inputs.grad_sumsq);
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    const float g = scale(ranges.gradients[matrix.begin + i]);
    gradient[matrix.dense + i] = g;
    if ((flags & kMoves) == 0) continue;
    float& moment = ranges.moment1[matrix.begin + i];
    const float m = moment + (1.0f - beta1) * (g - moment);
    moment = m;
    momentum[matrix.dense + i] = m;
  }
}

/// Where a matrix's turned gradient and momentum are: which of two dense copies.
struct TurnedEntry {
  std::int64_t gradient, momentum;  // floats from the workspace's beginning
};

/// Adam's step in the basis, in the momentum's place.
__global__ __launch_bounds__(kThreads) void adam_kernel(
    float* moment2, PreconditionerSettings settings, const MatrixEntry* matrices, int count,
    const MatrixStep* steps, const TurnedEntry* turned, float* workspace) {
  const Share share(matrices, count);
  const MatrixStep step = steps[share.matrix];
  if ((step.flags & kMoves) == 0) return;
  const float* gradient = workspace + turned[share.matrix].gradient;
  float* momentum = workspace + turned[share.matrix].momentum;
  const auto beta2 = float(settings.beta2);
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    const float g = gradient[i];
    float& second = moment2[matrices[share.matrix].begin + i];
    const float v = beta2 * second + (1.0f - beta2) * (g * g);
    second = v;
    momentum[i] = adam_step(step, settings.eps, momentum[i], v);
  }
}

/// The rows or the columns of a matrix, if they have a basis, and where it lies in the state.
struct Side {
  bool of_rows;
  std::int64_t length, covariance, basis;
};

/// Bases that one launch makes.
struct BasisGroup {
  std::vector<BasisJob> jobs;
  std::int64_t room = 0;  // floats
  std::int64_t num_tiles = 0, num_strips = 0, most_rows = 0;

  void add(const Side& side, int matrix) {
    const std::int64_t down = ceil_div<std::int64_t>(side.length, BasisSolver::kSide);
    jobs.push_back({side.covariance, side.basis, room, std::int32_t(side.length), matrix, num_tiles,
                    num_strips});
    room += room_of(side.length);
    num_tiles += down * down;
    num_strips += jobs.back().num_strips();
    most_rows = std::max(most_rows, side.length);
  }
  static std::int64_t room_of(std::int64_t side) {
    return ceil_div<std::int64_t>(side * side, 64) * 64 +
           ceil_div<std::int64_t>(qr::num_floats(side), 64) * 64;
  }
};

/// What is done to the matrices of a group, without a device.
struct Plan {
  MatrixGroup matrices;
  std::vector<Matrix> shapes;
  std::vector<std::vector<Side>> sides;  // by matrix
  std::vector<BasisGroup> bases;
};

constexpr int kNumDense = 4;

/// Byte offsets in the workspace.
struct Layout {
  std::int64_t steps, dense[kNumDense], squares, room, bytes;
};

class Plans {
 public:
  explicit Plans(const Attrs& attrs) {
    const std::int64_t max_dim = attrs.i64("max_dim");
    std::int64_t state = 0;
    for (const Matrix& m : ops::matrices_of(attrs)) {
      if (plans_.empty() || plans_.back().matrices.bytes() + m.elements() * 4 > kGroupBytes)
        plans_.emplace_back();
      add(plans_.back(), m, state, max_dim);
      state += ops::soap_state_elements(m, max_dim);
    }
    lay_out();
  }
  const std::vector<Plan>& plans() const { return plans_; }
  const Layout& layout() const { return layout_; }

 private:
  static void add(Plan& plan, const Matrix& m, std::int64_t state, std::int64_t max_dim) {
    const int number = int(plan.shapes.size());
    plan.matrices.add(m, state);
    plan.shapes.push_back(m);
    plan.sides.emplace_back();
    std::int64_t own = state + ops::kStateAlignment;
    for (const bool of_rows : {true, false}) {
      const std::int64_t length = of_rows ? m.rows : m.columns;
      if (length > max_dim) continue;
      const std::int64_t each = ops::padded_state(length * length);
      const Side side{of_rows, length, own, own + each};
      own += 2 * each;
      plan.sides.back().push_back(side);
      if (plan.bases.empty() ||
          plan.bases.back().room + BasisGroup::room_of(length) > kGroupBytes / 4)
        plan.bases.emplace_back();
      plan.bases.back().add(side, number);
    }
  }

  void lay_out() {
    std::int64_t matrices = 0, dense = 0, sides = 0, room = 0;
    for (const Plan& plan : plans_) {
      matrices = std::max(matrices, std::int64_t(plan.shapes.size()));
      dense = std::max(dense, plan.matrices.bytes());
      for (const BasisGroup& group : plan.bases) {
        sides = std::max(sides, std::int64_t(group.jobs.size()));
        room = std::max(room, group.room);
      }
    }
    WorkspaceLayout parts;
    layout_.steps = parts.reserve(matrices * std::int64_t(sizeof(MatrixStep)));
    for (std::int64_t& copy : layout_.dense) copy = parts.reserve(dense);
    layout_.squares = parts.reserve(sides * kNormParts * 8);
    layout_.room = parts.reserve(room * 4);
    layout_.bytes = parts.bytes();
  }

  std::vector<Plan> plans_;
  Layout layout_{};
};

/// The products of a step, in the order of their launches: gradient and momentum into the basis by
/// the first side and the second, the step back likewise.
struct Turns {
  ProductList covariances, into[2], back[2];
  std::vector<TurnedEntry> turned;
  std::vector<std::int64_t> steps;  // where each matrix's step ends, in floats

  Turns(const Plan& plan, const Layout& layout) {
    for (std::size_t i = 0; i < plan.shapes.size(); ++i) add(plan, layout, i);
  }

 private:
  void add(const Plan& plan, const Layout& layout, std::size_t i) {
    const Matrix& m = plan.shapes[i];
    const auto matrix = std::int32_t(i);
    const auto rows = std::int32_t(m.rows), columns = std::int32_t(m.columns);
    const auto copy = [&](int number) {
      return Place{layout.dense[number] / 4 + plan.matrices.entries[i].dense, m.columns};
    };
    // The gradient is free again when L and R have it.
    Place gradient = copy(0), other = copy(2), momentum = copy(1), other_momentum = copy(3);
    for (const Side& side : plan.sides[i]) {
      const auto length = std::int32_t(side.length);
      covariances.add({gradient,
                       gradient,
                       {side.covariance, side.length, true},
                       length,
                       length,
                       side.of_rows ? columns : rows,
                       !side.of_rows,
                       side.of_rows,
                       true,
                       matrix,
                       kActive,
                       0});
    }
    const auto turn = [&](ProductList& list, const Side& side, bool is_into, Place& from,
                          Place& to) {
      const Place basis{side.basis, side.length, true};
      const auto length = std::int32_t(side.length);
      if (side.of_rows) {
        list.add(
            {basis, from, to, rows, columns, length, is_into, false, false, matrix, kMoves, 0});
      } else {
        list.add(
            {from, basis, to, rows, columns, length, false, !is_into, false, matrix, kMoves, 0});
      }
      std::swap(from, to);
    };
    for (std::size_t s = 0; s < plan.sides[i].size(); ++s) {
      turn(into[s], plan.sides[i][s], true, gradient, other);
      turn(into[s], plan.sides[i][s], true, momentum, other_momentum);
    }
    turned.push_back({gradient.offset, momentum.offset});
    for (std::size_t s = 0; s < plan.sides[i].size(); ++s)
      turn(back[s], plan.sides[i][s], false, momentum, gradient);
    steps.push_back(momentum.offset - plan.matrices.entries[i].dense);
  }
};

constexpr std::int64_t kLeastShared =
    std::max<std::int64_t>(fp32::kSharedBytes<BasisSolver::Shape>, qr::kSumElements * 4);

/// Shared memory that a block of bases_kernel may ask for at its launch.
std::int64_t most_dynamic_bytes() {
  constexpr std::int64_t kStatic = 8 << 10;  // what the kernel has beside it
  return most_shared_bytes() - kStatic;
}

/// A group made ready for the device.
class Group {
 public:
  Group(const Plan& plan, const Layout& layout) : Group(plan, layout, Turns(plan, layout)) {}

  void run(const KernelArgs& args) const {
    const PreconditionerSettings settings(args.attrs());
    std::byte* base = args.workspace();
    const auto part = [&](std::int64_t offset) { return reinterpret_cast<float*>(base + offset); };
    const Homes homes{part(0), args.state<float>(kStateInput)};
    auto* steps = reinterpret_cast<MatrixStep*>(base + layout_.steps);
    auto* squares = reinterpret_cast<double*>(base + layout_.squares);
    const auto ranges = ranges_of<__half>(args, 2, nullptr);
    const int count = matrices_.count();
    launch(args, over_chunks(ceil_div<std::int64_t>(count, kThreads)), begin_step_kernel<true>,
           step_inputs(args), settings, matrices_.data(), count, homes.state, steps);
    launch(args, over_chunks(num_chunks_), gather_kernel, ranges, step_inputs(args),
           float(settings.beta1), matrices_.data(), count, steps, part(layout_.dense[0]),
           part(layout_.dense[1]));
    covariances_.run(args, steps, homes, settings.beta);
    for (const ProductLaunch& products : into_) products.run(args, steps, homes, 0);
    launch(args, over_chunks(num_chunks_), adam_kernel, ranges.moment2, settings, matrices_.data(),
           count, steps, turned_.data(), part(0));
    for (const ProductLaunch& products : back_) products.run(args, steps, homes, 0);
    end_step(args, stepped_, num_chunks_, steps, part(0));
    for (const Bases& bases : bases_) {
      launch(args, bases.shape, bases_kernel, bases.jobs.data(), bases.jobs.count(), steps, homes,
             squares, settings.ridge, bases.ticket->number(),
             std::int64_t(bases.shape.shared_bytes / sizeof(float)));
    }
  }

 private:
  struct Bases {
    DeviceTable<BasisJob> jobs;
    std::unique_ptr<Ticket> ticket;
    LaunchShape shape;
  };

  Group(const Plan& plan, const Layout& layout, const Turns& turns)
      : layout_(layout),
        num_chunks_(plan.matrices.num_chunks),
        matrices_(plan.matrices.entries),
        stepped_(stepped(plan, turns)),
        turned_(turns.turned),
        covariances_(turns.covariances) {
    for (const int i : {0, 1}) into_.emplace_back(turns.into[i]);
    for (const int i : {0, 1}) back_.emplace_back(turns.back[i]);
    for (const BasisGroup& group : plan.bases) {
      std::vector<BasisJob> jobs = group.jobs;
      for (BasisJob& job : jobs) job.room += layout.room / 4;
      bases_.push_back({DeviceTable<BasisJob>(jobs), std::make_unique<Ticket>(),
                        cooperative_shape(bases_kernel, BasisSolver::Shape::kThreads,
                                          shared_bytes(group.most_rows), most_dynamic_bytes(),
                                          std::max(group.num_tiles, group.num_strips))});
    }
  }

  /// Room for products and for the sums of reflections; for a whole panel if the GPU has it.
  static std::int64_t shared_bytes(std::int64_t rows) {
    const std::int64_t panel = rows * qr::kPitch * 4;
    return panel <= most_dynamic_bytes() ? std::max(kLeastShared, panel) : kLeastShared;
  }

  /// Entries whose dense copies are the steps.
  static std::vector<MatrixEntry> stepped(const Plan& plan, const Turns& turns) {
    std::vector<MatrixEntry> entries = plan.matrices.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i].dense += turns.steps[i];
    return entries;
  }

  Layout layout_;
  std::int64_t num_chunks_;
  DeviceTable<MatrixEntry> matrices_, stepped_;
  DeviceTable<TurnedEntry> turned_;
  ProductLaunch covariances_;
  std::vector<ProductLaunch> into_, back_;
  std::vector<Bases> bases_;
};

class Soap final : public PreparedKernel {
 public:
  explicit Soap(const KernelQuery& query) {
    const Plans plans(query.attrs);
    for (const Plan& plan : plans.plans())
      groups_.push_back(std::make_unique<Group>(plan, plans.layout()));
  }
  void run(const KernelArgs& args) const override {
    for (const auto& group : groups_) group->run(args);
    update_others(args, kNumStates);
  }

 private:
  std::vector<std::unique_ptr<Group>> groups_;
};

KernelDef soap_kernel() {
  KernelDef def;
  def.op = "soap";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.soap";
  def.refuse = [](const KernelQuery&) -> std::string {
    if (most_dynamic_bytes() < kLeastShared) return "a block has too little shared memory";
    return refuse_old_code();
  };
  def.workspace_bytes = [](const KernelQuery& query) { return Plans(query.attrs).layout().bytes; };
  def.prepare = [](const KernelQuery& query, int) { return std::make_unique<Soap>(query); };
  return def;
}

const KernelRegistration kSoap{soap_kernel()};

}  // namespace
}  // namespace tr::cuda::optimizer
