#include <map>
#include <optional>
#include <utility>

#include "core/base/strings.h"
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/graph_plan.h"

namespace twofold::cuda {

struct AttentionPlans::Implementation {
  Implementation() { cudnn.Check(cudnn.Create(&handle), "creating its handle"); }
  ~Implementation() {
    entries.clear();
    cudnn.Destroy(handle);
  }
  void SetStream(cudaStream_t to) {
    if (set && stream == to) return;
    cudnn.Check(cudnn.SetStream(handle, to), "setting its stream");
    stream = to, set = true;
  }
  struct Entry {
    std::optional<GraphPlan> plan;
    std::string why_not;
  };
  Entry& Find(const LibraryAttention& a, size_t workspace_bytes) {
    const auto [found, fresh] = entries.try_emplace({a, workspace_bytes});
    Entry& entry = found->second;
    if (!fresh) return entry;
    entry.why_not = WhyNotCudnn(a, major, static_cast<int64_t>(cudnn.GetVersion()));
    const size_t own = WorkspaceOf(a).bytes();
    if (entry.why_not.empty() && own > workspace_bytes)
      entry.why_not = StrCat("it needs a workspace of more than ", own, " bytes and has only ", workspace_bytes);
    if (!entry.why_not.empty()) return entry;
    std::string cannot_make;
    const std::string failed = cuda::WhyNot([&] {
      entry.plan.emplace(cudnn, GraphOf(a), PlannedFor{.handle = handle});
      cannot_make = entry.plan->Make({.most_bytes = workspace_bytes - own, .repeatable = a.repeatable});
    });
    entry.why_not = failed.empty() ? cannot_make : failed;
    if (!cannot_make.empty() && entry.plan->WantsMoreThan(workspace_bytes - own))
      StrAppend(&entry.why_not, MoreWorkspace(a, workspace_bytes));
    return entry;
  }

  const Cudnn& cudnn = TheCudnn();
  const int major = CapabilityOfCurrentGpu().major;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  bool set = false;
  std::map<std::pair<LibraryAttention, size_t>, Entry> entries;
};

AttentionPlans::AttentionPlans() = default;
AttentionPlans::~AttentionPlans() = default;

std::string AttentionPlans::WhyNot(const LibraryAttention& a, size_t workspace_bytes) {
  if (!WhyNoCudnn().empty()) return WhyNoCudnn();
  if (implementation_ == nullptr && why_no_handle_.empty()) {
    // cuDNN may be installed, but a library that it loads be missing or have another version
    why_no_handle_ = cuda::WhyNot([&] { implementation_ = std::make_unique<Implementation>(); });
  }
  if (implementation_ == nullptr) return why_no_handle_;
  return implementation_->Find(a, workspace_bytes).why_not;
}

void AttentionPlans::Run(const LibraryAttention& a, GraphAddresses tensors, std::byte* workspace,
                         size_t workspace_bytes, cudaStream_t stream) {
  Implementation& i = *implementation_;
  const AttentionWorkspace own = WorkspaceOf(a);
  if (own.delta > 0) tensors[static_cast<size_t>(GraphOperand::kDelta)] = workspace;
  if (own.dq_sums > 0) tensors[static_cast<size_t>(GraphOperand::kDQSums)] = workspace + own.delta;
  i.SetStream(stream);
  i.Find(a, workspace_bytes).plan->Run(i.handle, tensors, workspace + own.bytes());
}

std::string CudnnVersion(std::string* why_not) {
  *why_not = WhyNoCudnn();
  if (!why_not->empty()) return "";
  const size_t version = TheCudnn().GetVersion();
  return StrCat("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string WhyNoCudnnAttention() {
  if (!WhyNoCudnn().empty()) return WhyNoCudnn();
  return WhyNotVersion(static_cast<int64_t>(TheCudnn().GetVersion()));
}

}  // namespace twofold::cuda
