// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <type_traits>

#include "backend/cuda/cublaslt.h"
#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::uintptr_t kVectorAlignment = 256;  // of biases and their gradients
constexpr int kLeastAsked = 8;                    // of the heuristics: some answers are not taken

/// Enough for the partial results of a product cut 16 times along k, within cuBLASLt's usual 32
/// MiB.
std::int64_t workspace_bytes(const ProductShape& shape) {
  const std::int64_t results = shape.result_elements() * shape.batch;
  const std::int64_t wanted = 16 * results * std::int64_t(sizeof(float));
  return std::clamp<std::int64_t>(ceil_div<std::int64_t>(wanted, 256) * 256, kMiB / 16, 32 * kMiB);
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::FP32: return CUDA_R_32F;
    case DType::FP16: return CUDA_R_16F;
    case DType::BF16: return CUDA_R_16BF;
    default: throw_as<InternalError>("cublaslt: there are no products of {}", dtype);
  }
}

cublasLtEpilogue_t epilogue_of(Fused fused) {
  switch (fused) {
    case Fused::NONE: return CUBLASLT_EPILOGUE_DEFAULT;
    case Fused::BIAS: return CUBLASLT_EPILOGUE_BIAS;
    case Fused::COLUMN_SUMS: return CUBLASLT_EPILOGUE_BGRADB;
    case Fused::MASK: return CUBLASLT_EPILOGUE_DRELU;
  }
  throw_as<InternalError>("cublaslt: unknown epilogue {}", int(fused));
}

template <typename T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cublasStatus_t (*)(T)>;

Owned<cublasLtMatrixLayout_t> make_layout(DType dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  const CublasLt& lt = cublaslt();
  // cuBLASLt's matrices are column-major: our rows are its columns.
  lt.check(lt.layout_create(&layout, type_of(dtype), std::uint64_t(columns), std::uint64_t(rows),
                            columns),
           "cublasLtMatrixLayoutCreate");
  return {layout, lt.layout_destroy};
}

/// `batch` matrices, `stride` elements apart.
void set_batch(cublasLtMatrixLayout_t layout, std::int64_t batch, std::int64_t stride) {
  const auto count = std::int32_t(batch);
  const CublasLt& lt = cublaslt();
  lt.check(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
           "cublasLtMatrixLayoutSetAttribute");
  lt.check(
      lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
      "cublasLtMatrixLayoutSetAttribute");
}

template <typename T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  cublaslt().check(cublaslt().desc_set(desc, attribute, &value, sizeof(value)),
                   "cublasLtMatmulDescSetAttribute");
}

Owned<cublasLtMatmulPreference_t> make_preference(std::int64_t workspace) {
  const CublasLt& lt = cublaslt();
  cublasLtMatmulPreference_t preference = nullptr;
  lt.check(lt.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  Owned<cublasLtMatmulPreference_t> owned{preference, lt.preference_destroy};
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    lt.check(lt.preference_set(preference, attribute, &value, sizeof(value)),
             "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(workspace));
  // Partial sums in fp32, added by a step of their own in a fixed order; none in 16 bits.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // Views of a field of the batch need not start at a multiple of 256 bytes.
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(operand, std::uint32_t(16));
  }
  return owned;
}

template <typename T>
T config_of(const cublasLtMatmulAlgo_t& algo, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  std::size_t written = 0;
  cublaslt().check(cublaslt().config_get(&algo, attribute, &value, sizeof(value), &written),
                   "cublasLtMatmulAlgoConfigGetAttribute");
  return value;
}

bool adds_in_fixed_order(const cublasLtMatmulAlgo_t& algo) {
  const auto scheme = config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  return scheme == CUBLASLT_REDUCTION_SCHEME_NONE ||
         scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

constexpr std::size_t kDigits = 16;  // of a word

/// "66/tile20/stages35/split1#WORDS": for a reader, then the descriptor as the library's
/// documentation allows it to be kept, 16 hexadecimal digits a word.
std::string text_of(const cublasLtMatmulAlgo_t& algo) {
  std::string text = fmt::format("{}/tile{}/stages{}/split{}#",
                                 config_of<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID),
                                 config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID),
                                 config_of<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID),
                                 config_of<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
  for (const std::uint64_t word : algo.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<cublasLtMatmulAlgo_t> algo_from(std::string_view text) {
  const std::size_t mark = text.find('#');
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view words = text.substr(mark + 1);
  cublasLtMatmulAlgo_t algo{};
  if (words.size() != std::size(algo.data) * kDigits) return std::nullopt;
  for (std::size_t i = 0; i < std::size(algo.data); ++i) {
    const char* begin = words.data() + i * kDigits;
    const auto [end, error] = std::from_chars(begin, begin + kDigits, algo.data[i], 16);
    if (error != std::errc{} || end != begin + kDigits) return std::nullopt;
  }
  return algo;
}

/// Row-major C = op(A) op(B) is, column-major, C^T = op(B)^T op(A)^T: the operands change places.
class CublasLtProduct final : public Product {
 public:
  CublasLtProduct(const ProductShape& shape, Fused fused, cublasComputeType_t compute)
      : handle_(cublaslt_handle()),
        fused_(fused),
        alpha_(shape.alpha),
        beta_(shape.beta),
        first_(make_layout(shape.dtype, shape.transpose_b ? shape.n : shape.k,
                           shape.transpose_b ? shape.k : shape.n)),
        second_(make_layout(shape.dtype, shape.transpose_a ? shape.k : shape.m,
                            shape.transpose_a ? shape.m : shape.k)),
        result_(make_layout(shape.result, shape.m, shape.n)) {
    if (shape.batch > 1) {
      set_batch(first_.get(), shape.batch, shape.b_stride);
      set_batch(second_.get(), shape.batch, shape.a_stride);
      set_batch(result_.get(), shape.batch, shape.result_elements());
    }
    cublasLtMatmulDesc_t desc = nullptr;
    cublaslt().check(cublaslt().desc_create(&desc, compute, CUDA_R_32F),
                     "cublasLtMatmulDescCreate");
    desc_ = {desc, cublaslt().desc_destroy};
    const auto operation = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(desc, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.transpose_b));
    set(desc, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.transpose_a));
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(fused));
    // The heuristics may look at the alignment of a vector that only run() knows.
    if (has_vector()) set(desc, vector_attribute(), reinterpret_cast<void*>(kVectorAlignment));
    if (fused == Fused::MASK)
      set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, mask_row_bits(shape.n));
  }

  /// What the heuristics answer, which depends on shape, device and library only, best first;
  /// without those that add in no fixed order.
  std::vector<cublasLtMatmulHeuristicResult_t> find(std::int64_t workspace, int most) const {
    const CublasLt& lt = cublaslt();
    const auto preference = make_preference(workspace);
    std::vector<cublasLtMatmulHeuristicResult_t> found(std::size_t(std::max(most, kLeastAsked)));
    int count = 0;
    const cublasStatus_t status =
        lt.get_heuristic(handle_, desc_.get(), first_.get(), second_.get(), result_.get(),
                         result_.get(), preference.get(), int(found.size()), found.data(), &count);
    // An epilogue that does not exist for these types may be called an invalid value; a plain
    // product may not.
    const bool refused = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                         (status == CUBLAS_STATUS_INVALID_VALUE && fused_ != Fused::NONE);
    if (refused) return {};
    lt.check(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<cublasLtMatmulHeuristicResult_t> taken;
    for (int i = 0; i < count && int(taken.size()) < most; ++i) {
      const cublasLtMatmulHeuristicResult_t& candidate = found[std::size_t(i)];
      if (candidate.state == CUBLAS_STATUS_SUCCESS &&
          candidate.workspaceSize <= std::size_t(workspace) &&
          adds_in_fixed_order(candidate.algo)) {
        taken.push_back(candidate);
      }
    }
    return taken;
  }

  /// False: the library refuses the algorithm here, or it is not one of those that find() gives.
  bool take(const cublasLtMatmulAlgo_t& algo, std::int64_t workspace) {
    cublasLtMatmulHeuristicResult_t checked{};
    const cublasStatus_t status =
        cublaslt().algo_check(handle_, desc_.get(), first_.get(), second_.get(), result_.get(),
                              result_.get(), &algo, &checked);
    if (status != CUBLAS_STATUS_SUCCESS || checked.workspaceSize > std::size_t(workspace) ||
        !adds_in_fixed_order(algo)) {
      return false;
    }
    use(algo, checked.workspaceSize);
    return true;
  }
  void use(const cublasLtMatmulAlgo_t& algo, std::size_t workspace) {
    algo_ = algo;
    workspace_bytes_ = workspace;
  }

  void run(const KernelArgs& args, const ProductOperands& operands) const override {
    if (has_vector()) set(desc_.get(), vector_attribute(), operands.vector);
    const void* addend = beta_ == 0 ? operands.c : operands.addend;
    cublaslt().check(
        cublaslt().matmul(handle_, desc_.get(), &alpha_, operands.b, first_.get(), operands.a,
                          second_.get(), &beta_, addend, result_.get(), operands.c, result_.get(),
                          &algo_, operands.workspace, workspace_bytes_, stream_of(args)),
        "cublasLtMatmul");
  }

 private:
  bool has_vector() const { return fused_ != Fused::NONE; }
  cublasLtMatmulDescAttributes_t vector_attribute() const {
    return fused_ == Fused::MASK ? CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER
                                 : CUBLASLT_MATMUL_DESC_BIAS_POINTER;
  }

  cublasLtHandle_t handle_;
  Fused fused_;
  float alpha_, beta_;
  Owned<cublasLtMatrixLayout_t> first_, second_, result_;
  Owned<cublasLtMatmulDesc_t> desc_{nullptr, nullptr};
  cublasLtMatmulAlgo_t algo_{};
  std::size_t workspace_bytes_ = 0;
};

std::string refuse(const ProductShape& shape) {
  if (shape.batch > INT32_MAX) return fmt::format("{} products, expected fewer", shape.batch);
  if (shape.m > 0 && shape.n > 0 && shape.k > 0) return "";
  return fmt::format("the product [{}, {}] x [{}, {}] is empty", shape.m, shape.k, shape.k,
                     shape.n);
}

std::string refuse_tf32(const ProductShape& shape) {
  if (shape.dtype == DType::FP32) return refuse(shape);
  return fmt::format("operands are {}, expected fp32 (which TF32 stands for)", shape.dtype);
}

template <cublasComputeType_t kCompute>
std::unique_ptr<Product> make(const ProductShape& shape, Fused fused, std::string_view algorithm) {
  auto product = std::make_unique<CublasLtProduct>(shape, fused, kCompute);
  const std::int64_t workspace = workspace_bytes(shape);
  if (!algorithm.empty()) {
    const auto algo = algo_from(algorithm);
    return algo && product->take(*algo, workspace) ? std::move(product) : nullptr;
  }
  const auto found = product->find(workspace, 1);
  if (found.empty()) return nullptr;
  product->use(found[0].algo, found[0].workspaceSize);
  return product;
}

template <cublasComputeType_t kCompute>
std::vector<std::string> algorithms(const ProductShape& shape, Fused fused, int most) {
  const CublasLtProduct product(shape, fused, kCompute);
  std::vector<std::string> texts;
  for (const auto& found : product.find(workspace_bytes(shape), most)) {
    texts.push_back(text_of(found.algo));
  }
  return texts;
}

}  // namespace

const ProductEngine& cublaslt_engine() {
  static const ProductEngine engine{"cublaslt",
                                    10,
                                    refuse,
                                    workspace_bytes,
                                    make<CUBLAS_COMPUTE_32F>,
                                    algorithms<CUBLAS_COMPUTE_32F>};
  return engine;
}

const ProductEngine& cublaslt_tf32_engine() {
  static const ProductEngine engine{"cublaslt_tf32",
                                    11,
                                    refuse_tf32,
                                    workspace_bytes,
                                    make<CUBLAS_COMPUTE_32F_FAST_TF32>,
                                    algorithms<CUBLAS_COMPUTE_32F_FAST_TF32>};
  return engine;
}

}  // namespace tr::cuda
