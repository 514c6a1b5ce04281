// SPDX-License-Identifier: Apache-2.0
// Shampoo: all matrices of a group at once, block by block, their products in fp32; all other
// elements by AdamW in one pass.
#include "backend/cuda/inverse_root.cuh"
#include "backend/cuda/muon.h"

namespace tr::cuda::optimizer {
namespace {

using ops::Block;
using ops::Matrix;

enum class Grafting : std::int32_t { NONE, SGD, ADAM };

Grafting grafting_of(const Attrs& attrs) {
  const std::string& name = attrs.str("grafting");
  return name == "none" ? Grafting::NONE : name == "sgd" ? Grafting::SGD : Grafting::ADAM;
}

/// Gradient and momentum of all elements, and the squares of what gives the step its length.
__global__ __launch_bounds__(kThreads) void gather_kernel(Ranges<__half> ranges, StepInputs inputs,
                                                          PreconditionerSettings settings,
                                                          Grafting grafting,
                                                          const MatrixEntry* matrices, int count,
                                                          const MatrixStep* steps, float* gradient,
                                                          float* direction, double* squares) {
  const Share share(matrices, count);
  const MatrixStep step = steps[share.matrix];
  if (step.flags == 0) return;
  const MatrixEntry& matrix = matrices[share.matrix];
  const GradientScale scale = gradient_scale(inputs, inputs.grad_sumsq);
  const auto beta1 = float(settings.beta1), beta2 = float(settings.beta2);
  double sum = 0;
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    const std::int64_t at = matrix.begin + i;
    const float g = scale(ranges.gradients[at]);
    float& moment = ranges.moment1[at];
    const float m = moment + (1.0f - beta1) * (g - moment);
    moment = m;
    const float d = m * step.inv_correction1;
    gradient[matrix.dense + i] = g;
    direction[matrix.dense + i] = d;
    float like = d;
    if (grafting == Grafting::ADAM) {
      float& second = ranges.moment2[at];
      const float v = beta2 * second + (1.0f - beta2) * (g * g);
      second = v;
      like = adam_step(step, settings.eps, m, v);
    }
    sum += double(like) * double(like);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

__global__ __launch_bounds__(kThreads) void measure_kernel(const MatrixEntry* matrices, int count,
                                                           const MatrixStep* steps, const float* u,
                                                           double* squares) {
  const Share share(matrices, count);
  if (steps[share.matrix].flags == 0) return;
  const float* own = u + matrices[share.matrix].dense;
  double sum = 0;
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads)
    sum += double(own[i]) * double(own[i]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

/// What a matrix's step is multiplied with. A block a matrix.
__global__ __launch_bounds__(kThreads) void graft_kernel(const MatrixEntry* matrices,
                                                         const double* wanted, const double* have,
                                                         MatrixStep* steps) {
  const MatrixEntry& matrix = matrices[blockIdx.x];
  if (steps[blockIdx.x].flags == 0) return;
  const std::int64_t end = matrix.first_chunk + (matrix.count + kChunk - 1) / kChunk;
  double of_wanted = 0, of_have = 0;
  for (std::int64_t i = matrix.first_chunk + threadIdx.x; i < end; i += kThreads) {
    of_wanted += wanted[i];
    of_have += have[i];
  }
  of_wanted = block_sum(of_wanted);
  __syncthreads();
  of_have = block_sum(of_have);
  if (threadIdx.x == 0)
    steps[blockIdx.x].length = of_have > 0 ? float(sqrt(of_wanted / of_have)) : 0.0f;
}

/// State of a block, behind the matrix's count of steps.
struct BlockState {
  std::int64_t left, right, left_root, right_root;

  BlockState(const Block& block, std::int64_t at)
      : left(at),
        right(left + ops::padded_state(block.rows * block.rows)),
        left_root(right + ops::padded_state(block.columns * block.columns)),
        right_root(left_root + ops::padded_state(block.rows * block.rows)) {}
};

/// Roots that one launch makes.
struct RootGroup {
  std::vector<RootJob> jobs;
  std::int64_t room = 0;  // floats
  std::int64_t num_tiles = 0;

  void add(std::int64_t covariance, std::int64_t root, std::int64_t side, int matrix) {
    const std::int64_t down = ceil_div<std::int64_t>(side, RootSolver::kSide);
    jobs.push_back({covariance, root, room, std::int32_t(side), matrix, num_tiles});
    room += room_of(side);
    num_tiles += down * (down + 1) / 2;
  }
  static std::int64_t room_of(std::int64_t side) {
    return ceil_div<std::int64_t>(kRootMatrices * side * side, 64) * 64;
  }
};

/// What is done to the matrices of a group, without a device.
struct Plan {
  MatrixGroup matrices;
  std::vector<Matrix> shapes;
  std::vector<RootGroup> roots;
};

/// Byte offsets in the workspace.
struct Layout {
  std::int64_t steps, gradient, direction, wanted, have, root_squares, distances, last, room;
  std::int64_t bytes;
};

class Plans {
 public:
  explicit Plans(const Attrs& attrs) : block_size_(attrs.i64("block_size")) {
    std::int64_t state = 0;
    for (const Matrix& m : ops::matrices_of(attrs)) {
      if (plans_.empty() || (plans_.back().matrices.bytes() + m.elements() * 4 > kGroupBytes))
        plans_.emplace_back();
      Plan& plan = plans_.back();
      plan.matrices.add(m, state);
      plan.shapes.push_back(m);
      add_roots(plan, m, state);
      state += ops::shampoo_state_elements(m, block_size_);
    }
    lay_out();
  }
  const std::vector<Plan>& plans() const { return plans_; }
  const Layout& layout() const { return layout_; }
  std::int64_t block_size() const { return block_size_; }

 private:
  void add_roots(Plan& plan, const Matrix& m, std::int64_t state) const {
    const int number = int(plan.shapes.size()) - 1;
    std::int64_t own = state + ops::kStateAlignment;
    for (const Block& block : ops::blocks_of(m, block_size_)) {
      const BlockState at(block, own);
      const auto add = [&](std::int64_t covariance, std::int64_t root, std::int64_t side) {
        const std::int64_t most = kGroupBytes / 4;
        if (plan.roots.empty() || plan.roots.back().room + RootGroup::room_of(side) > most)
          plan.roots.emplace_back();
        plan.roots.back().add(covariance, root, side, number);
      };
      add(at.left, at.left_root, block.rows);
      add(at.right, at.right_root, block.columns);
      own += block.state_elements();
    }
  }

  void lay_out() {
    std::int64_t matrices = 0, dense = 0, chunks = 0, roots = 0, tiles = 0, room = 0;
    for (const Plan& plan : plans_) {
      matrices = std::max(matrices, std::int64_t(plan.shapes.size()));
      dense = std::max(dense, plan.matrices.bytes());
      chunks = std::max(chunks, plan.matrices.num_chunks);
      for (const RootGroup& group : plan.roots) {
        roots = std::max(roots, std::int64_t(group.jobs.size()));
        tiles = std::max(tiles, group.num_tiles);
        room = std::max(room, group.room);
      }
    }
    WorkspaceLayout parts;
    layout_.steps = parts.reserve(matrices * std::int64_t(sizeof(MatrixStep)));
    layout_.gradient = parts.reserve(dense);
    layout_.direction = parts.reserve(dense);
    layout_.wanted = parts.reserve(chunks * 8);
    layout_.have = parts.reserve(chunks * 8);
    layout_.root_squares = parts.reserve(roots * 2 * kNormParts * 8);
    layout_.distances = parts.reserve(tiles * 4);
    layout_.last = parts.reserve(roots * 4);
    layout_.room = parts.reserve(room * 4);
    layout_.bytes = parts.bytes();
  }

  std::int64_t block_size_;
  std::vector<Plan> plans_;
  Layout layout_{};
};

/// A group made ready for the device.
class Group {
 public:
  Group(const Plan& plan, const Layout& layout, std::int64_t block_size)
      : layout_(layout),
        num_chunks_(plan.matrices.num_chunks),
        matrices_(plan.matrices.entries),
        covariances_(covariances(plan, block_size)),
        left_(sides(plan, block_size, true)),
        right_(sides(plan, block_size, false)) {
    for (const RootGroup& group : plan.roots) {
      constexpr std::int64_t kBytes = fp32::kSharedBytes<RootSolver::Shape>;
      std::vector<RootJob> jobs = group.jobs;
      for (RootJob& job : jobs) job.room += layout.room / 4;
      const std::int64_t most =
          std::max<std::int64_t>(2 * group.num_tiles, std::int64_t(jobs.size()));
      roots_.push_back(
          {DeviceTable<RootJob>(jobs), std::make_unique<Ticket>(),
           cooperative_shape(roots_kernel, RootSolver::Shape::kThreads, kBytes, kBytes, most)});
    }
  }

  void run(const KernelArgs& args) const {
    const PreconditionerSettings settings(args.attrs());
    const Grafting grafting = grafting_of(args.attrs());
    std::byte* base = args.workspace();
    const auto part = [&](std::int64_t offset) { return reinterpret_cast<float*>(base + offset); };
    const auto sums = [&](std::int64_t offset) { return reinterpret_cast<double*>(base + offset); };
    const Homes homes{part(0), args.state<float>(kStateInput)};
    auto* steps = reinterpret_cast<MatrixStep*>(base + layout_.steps);
    const int count = matrices_.count();
    launch(args, over_chunks(ceil_div<std::int64_t>(count, kThreads)), begin_step_kernel<false>,
           step_inputs(args), settings, matrices_.data(), count, homes.state, steps);
    launch(args, over_chunks(num_chunks_), gather_kernel, ranges_of<__half>(args, 2, nullptr),
           step_inputs(args), settings, grafting, matrices_.data(), count, steps,
           part(layout_.gradient), part(layout_.direction), sums(layout_.wanted));
    covariances_.run(args, steps, homes, settings.beta);
    const RootNotes notes{sums(layout_.root_squares), part(layout_.distances),
                          reinterpret_cast<int*>(base + layout_.last)};
    for (const Roots& roots : roots_) {
      launch(args, roots.shape, roots_kernel, roots.jobs.data(), roots.jobs.count(), steps, homes,
             notes, settings.ridge, roots.ticket->number());
    }
    left_.run(args, steps, homes, 0);
    right_.run(args, steps, homes, 0);
    if (grafting != Grafting::NONE) {
      launch(args, over_chunks(num_chunks_), measure_kernel, matrices_.data(), count, steps,
             part(layout_.direction), sums(layout_.have));
      launch(args, over_chunks(count), graft_kernel, matrices_.data(), sums(layout_.wanted),
             sums(layout_.have), steps);
    }
    end_step(args, matrices_, num_chunks_, steps, part(layout_.direction));
  }

 private:
  struct Roots {
    DeviceTable<RootJob> jobs;
    std::unique_ptr<Ticket> ticket;
    LaunchShape shape;
  };

  /// Calls f(matrix's number, block, its state, places of the block in both dense copies).
  template <typename F>
  void for_blocks(const Plan& plan, std::int64_t block_size, F&& f) const {
    for (std::size_t i = 0; i < plan.shapes.size(); ++i) {
      const Matrix& m = plan.shapes[i];
      const MatrixEntry& entry = plan.matrices.entries[i];
      std::int64_t own = entry.state + ops::kStateAlignment;
      for (const Block& block : ops::blocks_of(m, block_size)) {
        const std::int64_t at = entry.dense + block.row * m.columns + block.column;
        f(std::int32_t(i), block, BlockState(block, own),
          Place{layout_.gradient / 4 + at, m.columns},
          Place{layout_.direction / 4 + at, m.columns});
        own += block.state_elements();
      }
    }
  }

  ProductList covariances(const Plan& plan, std::int64_t block_size) const {
    ProductList list;
    for_blocks(plan, block_size,
               [&](std::int32_t matrix, const Block& block, const BlockState& state,
                   const Place& gradient, const Place&) {
                 const auto rows = std::int32_t(block.rows), columns = std::int32_t(block.columns);
                 list.add({gradient,
                           gradient,
                           {state.left, rows, true},
                           rows,
                           rows,
                           columns,
                           false,
                           true,
                           true,
                           matrix,
                           kActive,
                           0});
                 list.add({gradient,
                           gradient,
                           {state.right, columns, true},
                           columns,
                           columns,
                           rows,
                           true,
                           false,
                           true,
                           matrix,
                           kActive,
                           0});
               });
    return list;
  }

  /// The direction between its roots, by way of the gradient's place, which is free by then.
  ProductList sides(const Plan& plan, std::int64_t block_size, bool left) const {
    ProductList list;
    for_blocks(plan, block_size,
               [&](std::int32_t matrix, const Block& block, const BlockState& state,
                   const Place& room, const Place& direction) {
                 const auto rows = std::int32_t(block.rows), columns = std::int32_t(block.columns);
                 if (left) {
                   list.add({{state.left_root, rows, true},
                             direction,
                             room,
                             rows,
                             columns,
                             rows,
                             false,
                             false,
                             false,
                             matrix,
                             kActive,
                             0});
                 } else {
                   list.add({room,
                             {state.right_root, columns, true},
                             direction,
                             rows,
                             columns,
                             columns,
                             false,
                             false,
                             false,
                             matrix,
                             kActive,
                             0});
                 }
               });
    return list;
  }

  Layout layout_;
  std::int64_t num_chunks_;
  DeviceTable<MatrixEntry> matrices_;
  ProductLaunch covariances_, left_, right_;
  std::vector<Roots> roots_;
};

class Shampoo final : public PreparedKernel {
 public:
  explicit Shampoo(const KernelQuery& query) {
    const Plans plans(query.attrs);
    for (const Plan& plan : plans.plans())
      groups_.push_back(std::make_unique<Group>(plan, plans.layout(), plans.block_size()));
  }
  void run(const KernelArgs& args) const override {
    for (const auto& group : groups_) group->run(args);
    update_others(args, kNumStates);
  }

 private:
  std::vector<std::unique_ptr<Group>> groups_;
};

KernelDef shampoo_kernel() {
  KernelDef def;
  def.op = "shampoo";
  def.device = DeviceKind::CUDA;
  def.name = "cuda.shampoo";
  def.refuse = [](const KernelQuery&) { return refuse_old_code(); };
  def.workspace_bytes = [](const KernelQuery& query) { return Plans(query.attrs).layout().bytes; };
  def.prepare = [](const KernelQuery& query, int) { return std::make_unique<Shampoo>(query); };
  return def;
}

const KernelRegistration kShampoo{shampoo_kernel()};

}  // namespace
}  // namespace tr::cuda::optimizer
