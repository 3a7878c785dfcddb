#include "kernels/cuda/convolutions.h"

#include <map>
#include <optional>
#include <utility>

#include "core/base/strings.h"
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/graph_plan.h"

namespace twofold::cuda {
namespace {

bool AlignedTo16(const GraphAddresses& tensors, GraphOperand operand) {
  return reinterpret_cast<uintptr_t>(tensors[static_cast<size_t>(operand)]) % 16 == 0;
}

}  // namespace

struct Convolutions::Handles {
  Handles() { cudnn.Check(cudnn.Create(&handle), "creating its handle"); }
  ~Handles() {
    entries.clear();
    cudnn.Destroy(handle);
  }
  void SetStream(cudaStream_t to) {  // may cost cuDNN its own streams and events
    if (set && stream == to) return;
    cudnn.Check(cudnn.SetStream(handle, to), "setting its stream");
    stream = to, set = true;
  }
  struct Entry {
    std::optional<GraphPlan> plan;
    std::string why_not;
  };
  // `to`: the stream of the attempt.
  Entry& Find(const LibraryConvolution& c, size_t workspace_bytes, bool tf32, cudaStream_t to) {
    const std::pair key(c, workspace_bytes);
    if (const auto found = entries.find(key); found != entries.end()) return found->second;
    Entry entry{.plan = std::nullopt, .why_not = WhyNotCudnn(c)};
    if (entry.why_not.empty()) {
      std::string cannot_make;
      const std::string failed = cuda::WhyNot(
          [&] {
            entry.plan.emplace(cudnn, GraphOf(c), PlannedFor{.handle = handle});
            cannot_make =
                entry.plan->Make({.most_bytes = workspace_bytes, .tensor_cores = tf32 || c.type != DType::kF32});
          },
          to);
      entry.why_not = failed.empty() ? cannot_make : failed;
    }
    return entries.emplace(key, std::move(entry)).first->second;
  }

  const Cudnn& cudnn = TheCudnn();
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  bool set = false;
  std::map<std::pair<LibraryConvolution, size_t>, Entry> entries;
};

Convolutions::Convolutions(bool tf32) : tf32_(tf32) {}
Convolutions::~Convolutions() = default;

bool Convolutions::Available() { return WhyNoCudnn().empty(); }

std::string Convolutions::WhyNot(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte* workspace,
                                 size_t workspace_bytes, cudaStream_t stream) {
  for (const GraphOperand operand : {GraphOperand::kX, GraphOperand::kW, GraphOperand::kY}) {
    if (!AlignedTo16(tensors, operand)) return "cuDNN's convolutions need tensors that are aligned to 16 bytes";
  }
  if (handles_ == nullptr && why_no_handles_.empty()) {
    // cuDNN may be installed, but a library that it loads be missing or have another version
    why_no_handles_ = cuda::WhyNot([&] { handles_ = std::make_unique<Handles>(); }, stream);
  }
  if (handles_ == nullptr) return why_no_handles_;
  Handles::Entry& entry = handles_->Find(c, workspace_bytes, tf32_, stream);
  if (!entry.why_not.empty()) return entry.why_not;
  entry.why_not = cuda::WhyNot(
      [&] {
        handles_->SetStream(stream);
        entry.plan->Run(handles_->handle, tensors, workspace);
      },
      stream);
  return entry.why_not;
}

bool Convolutions::Run(const LibraryConvolution& c, const GraphAddresses& tensors, std::byte* workspace,
                       size_t workspace_bytes, cudaStream_t stream) {
  const std::string why = WhyNot(c, tensors, workspace, workspace_bytes, stream);
  if (why.empty()) return true;
  if (note_ && told_.insert(c).second) note_(StrCat(NameOf(c), ": own kernels (", why, ")"));
  return false;
}

}  // namespace twofold::cuda
