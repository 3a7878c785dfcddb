#include "kernels/cuda/libraries.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

constexpr int kTimedRuns = 5;

cudaDataType_t TypeOf(const LibraryMatrix& m) {
  switch (m.type) {
    case DType::kF64: return CUDA_R_64F;
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    case DType::kU8: return m.format == ops::Fp8Format::kE4M3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
    default: TWOFOLD_CHECK(false, "the type is a float type, or codes");
  }
}

// GELU in its tanh form, on the unrounded sums. Its argument is written to, or read from, the auxiliary matrix.
cublasLtEpilogue_t EpilogueOf(const LibraryProduct& p) {
  switch (p.epilogue) {
    case ops::MatMul::kNone: return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case ops::MatMul::kGelu: return p.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case ops::MatMul::kGeluSlope: return CUBLASLT_EPILOGUE_DGELU;
  }
  __builtin_unreachable();
}

std::string NameOf(const LibraryProduct& p) {
  const int64_t m = p.d.rows, n = p.d.columns, k = p.inner();
  return StrCat("product of ", n, " x ", k, " and ", k, " x ", m, " ",
                p.fp8() ? "FP8" : std::string(DTypeName(p.a.type)), " into ", std::string(DTypeName(p.d.type)),
                p.batch > 1 ? StrCat(", ", p.batch, " at once") : "",
                p.epilogue != ops::MatMul::kNone ? " with GELU" : "");
}

// The descriptors of one kind of product, and the algorithm that computes it.
class Multiplication {
 public:
  Multiplication(const CublasLt& lt, const LibraryProduct& p, bool tf32) : lt_(lt), name_(NameOf(p)) {
    const bool f64 = p.arithmetic == DType::kF64;
    const cublasComputeType_t arithmetic = f64                               ? CUBLAS_COMPUTE_64F
                                           : tf32 && p.a.type == DType::kF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                             : CUBLAS_COMPUTE_32F;
    Check(lt.MatmulDescCreate(&product_, arithmetic, f64 ? CUDA_R_64F : CUDA_R_32F));
    Set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p));
    if (p.epilogue != ops::MatMul::kNone) Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.d.leading);
    SetScaleModes(p);
    Describe(p.a, p.batch, a_);
    Describe(p.b, p.batch, b_);
    Describe(p.d, p.batch, d_);
  }
  ~Multiplication() {
    for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
      if (layout != nullptr) lt_.MatrixLayoutDestroy(layout);
    }
    if (product_ != nullptr) lt_.MatmulDescDestroy(product_);
  }
  Multiplication(const Multiplication&) = delete;
  Multiplication& operator=(const Multiplication&) = delete;

  void SetBias(const void* bias) { Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }
  void SetScales(const float* a, const float* b) {
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a);
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b);
  }
  void SetAux(void* aux) { Set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux); }

  // Queries the heuristic until it has an acceptable candidate. Throws CudaError if it has none.
  void FindCandidates(cublasLtHandle_t handle, const AlgorithmKey& key) {
    const auto ask = [&](const HeuristicQuery& query) -> std::span<const Candidate> {
      Ask(handle, key, query);
      return candidates_;
    };
    if (!AskUntilAcceptable(key.workspace_bytes, ask))
      throw CudaError("cuBLASLt has no deterministic algorithm for the " + name_);
  }

  // Keeps the first acceptable candidate.
  void Decide(size_t workspace_bytes) { algorithm_ = answers_[Choose(candidates_, workspace_bytes, false)].algo; }
  // Keeps the fastest one: run(candidate) returns seconds.
  template <class Run>
  void DecideByTime(size_t workspace_bytes, Run&& run) {
    for (size_t i = 0; i < candidates_.size(); ++i) {
      if (Acceptable(candidates_[i], workspace_bytes)) candidates_[i].seconds = run(answers_[i].algo);
    }
    algorithm_ = answers_[Choose(candidates_, workspace_bytes, true)].algo;
    timed_ = true;
  }
  bool timed() const { return timed_; }

  void Run(cublasLtHandle_t handle, const LibraryProduct& p, const Libraries::Operands& on, cudaStream_t stream,
           const cublasLtMatmulAlgo_t& algorithm) const {
    const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
    const bool f64 = p.arithmetic == DType::kF64;
    Check(lt_.Matmul(handle, product_, f64 ? static_cast<const void*>(&p.alpha) : &alpha, on.a, a_, on.b, b_,
                     f64 ? static_cast<const void*>(&p.beta) : &beta, on.d, d_, on.d, d_, &algorithm, on.workspace,
                     on.workspace_bytes, stream));
  }
  const cublasLtMatmulAlgo_t& algorithm() const { return algorithm_; }

 private:
  // Sets answers_ and candidates_, sorted best first.
  void Ask(cublasLtHandle_t handle, const AlgorithmKey& key, const HeuristicQuery& query) {
    cublasLtMatmulPreference_t preference = nullptr;
    Check(lt_.MatmulPreferenceCreate(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      Check(lt_.MatmulPreferenceSetAttribute(preference, what, &value, sizeof value));
    };
    int count = 0;
    cublasStatus_t status;
    try {
      prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{key.workspace_bytes});
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<uint32_t>(query.splits ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                : CUBLASLT_REDUCTION_SCHEME_NONE));
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.a);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.b);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.d);
      prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.d);
      answers_.resize(static_cast<size_t>(query.most));
      status =
          lt_.MatmulAlgoGetHeuristic(handle, product_, a_, b_, d_, d_, preference, query.most, answers_.data(), &count);
    } catch (...) {
      lt_.MatmulPreferenceDestroy(preference);
      throw;
    }
    lt_.MatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) Check(status);  // that means: none of this kind; count is 0
    answers_.resize(static_cast<size_t>(count));
    candidates_.clear();
    for (const cublasLtMatmulHeuristicResult_t& answer : answers_) candidates_.push_back(Describe(answer));
  }
  void Check(cublasStatus_t status) const { lt_.Check(status, name_); }
  template <class T>
  void Set(cublasLtMatmulDescAttributes_t what, T value) {
    Check(lt_.MatmulDescSetAttribute(product_, what, &value, sizeof value));
  }
  void SetScaleModes(const LibraryProduct& p) {
    if (p.a.scales == LibraryScales::kOne && p.b.scales == LibraryScales::kOne) return;  // the default
#if CUBLAS_VERSION >= 120900                                                             // kCublasWithFp8Blocks
    constexpr int32_t kModes[] = {CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                                  CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};
    Set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, kModes[static_cast<int>(p.a.scales)]);
    Set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, kModes[static_cast<int>(p.b.scales)]);
#else
    throw CudaError("cuBLASLt: this build's headers know no scales of blocks");
#endif
  }
  void Describe(const LibraryMatrix& m, int64_t batch, cublasLtMatrixLayout_t& layout) {
    Check(lt_.MatrixLayoutCreate(&layout, TypeOf(m), static_cast<uint64_t>(m.rows), static_cast<uint64_t>(m.columns),
                                 m.leading));
    if (batch == 1) return;
    const auto count = static_cast<int32_t>(batch);
    Check(lt_.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    Check(lt_.MatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.batch_stride,
                                       sizeof m.batch_stride));
  }
  Candidate Describe(const cublasLtMatmulHeuristicResult_t& answer) const {
    int32_t splits = 1;
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    // an algorithm without this attribute does not split sums
    const auto read = [&](cublasLtMatmulAlgoConfigAttributes_t what, auto& value) {
      size_t written = 0;
      auto read = value;
      if (lt_.MatmulAlgoConfigGetAttribute(&answer.algo, what, &read, sizeof read, &written) == CUBLAS_STATUS_SUCCESS)
        value = read;
    };
    read(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits);
    read(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, scheme);
    return {.usable = answer.state == CUBLAS_STATUS_SUCCESS,
            .workspace_bytes = answer.workspaceSize,
            .splits = splits,
            .added_wide = scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};
  }

  const CublasLt& lt_;
  const std::string name_;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> answers_;
  std::vector<Candidate> candidates_;
  cublasLtMatmulAlgo_t algorithm_ = {};
  bool timed_ = false;
};

// The fastest of a few runs, in seconds, measured by events of the stream. The first run is not counted: it loads the
// kernel.
template <class F>
double FastestRun(cudaStream_t stream, F&& f) {
  cudaEvent_t begin, end;
  Check(cudaEventCreateWithFlags(&begin, cudaEventDefault));
  Check(cudaEventCreateWithFlags(&end, cudaEventDefault));
  float best = 0;
  for (int i = 0; i <= kTimedRuns; ++i) {
    Check(cudaEventRecord(begin, stream));
    f();
    Check(cudaEventRecord(end, stream));
    Check(cudaEventSynchronize(end));
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end));
    if (i == 1 || (i > 1 && milliseconds < best)) best = milliseconds;
  }
  Check(cudaEventDestroy(begin));
  Check(cudaEventDestroy(end));
  return static_cast<double>(best) * 1e-3;
}

}  // namespace

struct Libraries::Handles {
  Options options;
  const CublasLt& lt = TheCublasLt();
  cublasLtHandle_t handle = nullptr;
  std::map<AlgorithmKey, Multiplication> products;
  bool fuses = CapabilityOfCurrentGpu().major >= 9;
  std::set<AlgorithmKey> unsupported;  // products with epilogues

  // With the descriptors of `on`, and an algorithm. Throws CudaError if there is none.
  Multiplication& Find(const LibraryProduct& p, const AlgorithmKey& key, const Operands& on) {
    const auto [found, fresh] = products.try_emplace(key, lt, p, options.tf32);
    Multiplication& product = found->second;
    try {
      if (p.bias) product.SetBias(on.bias);
      if (on.aux != nullptr) product.SetAux(on.aux);
      if (p.fp8()) product.SetScales(on.a_scales, on.b_scales);
      if (fresh) product.FindCandidates(handle, key), product.Decide(key.workspace_bytes);
    } catch (...) {
      products.erase(found);
      throw;
    }
    return product;
  }
};

Libraries::Libraries(const Options& options)
    : handles_(new Handles{.options = options}),
      convolutions_(options.tf32),
      attentions_(options.attention, options.time_algorithms),
      fp8_(options.own_fp8, CapabilityOfCurrentGpu(), handles_->lt.GetVersion()) {
  handles_->lt.Check(handles_->lt.Create(&handles_->handle), "creating its handle");
}

std::vector<std::string> LibraryVersions() {
  std::string lt, why_not;
  try {
    const size_t version = TheCublasLt().GetVersion();
    lt = StrCat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
  } catch (const std::exception& e) {  // it cannot be loaded
    lt = e.what();
  }
  const std::string cudnn = CudnnVersion(&why_not);
  return {lt, why_not.empty() ? cudnn : StrCat("no cuDNN: ", why_not)};
}

Libraries::~Libraries() { handles_->lt.Destroy(handles_->handle); }

void Libraries::Multiply(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  Handles& h = *handles_;
  const AlgorithmKey key = KeyOf(p, on.a, on.b, on.d, on.workspace_bytes);
  Multiplication& product = h.Find(p, key, on);
  // Candidates are timed only if the output is overwritten and not added to, so that running them has no effect on
  // results.
  if (h.options.time_algorithms && p.beta == 0 && !product.timed()) {
    try {
      product.DecideByTime(on.workspace_bytes, [&](const cublasLtMatmulAlgo_t& algorithm) {
        return FastestRun(stream, [&] { product.Run(h.handle, p, on, stream, algorithm); });
      });
    } catch (...) {
      h.products.erase(key);
      throw;
    }
  }
  product.Run(h.handle, p, on, stream, product.algorithm());
}

bool Libraries::MultiplyFused(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  Handles& h = *handles_;
  const AlgorithmKey key = KeyOf(p, on.a, on.b, on.d, on.workspace_bytes);
  if (!h.fuses || h.unsupported.contains(key)) return false;
  // whatever the library's reason, two kernels give the right result
  if (WhyNot([&] { Multiply(p, on, stream); }, stream).empty()) return true;
  h.unsupported.insert(key);
  return false;
}

std::string Libraries::WhyNoFp8(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  return WhyNot([&] { handles_->Find(p, KeyOf(p, on.a, on.b, on.d, on.workspace_bytes), on); }, stream);
}

std::string Libraries::MultiplyFp8(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  return WhyNot([&] { Multiply(p, on, stream); }, stream);
}

}  // namespace twofold::cuda
