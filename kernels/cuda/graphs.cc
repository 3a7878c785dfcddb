#include "kernels/cuda/graphs.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::cuda {
namespace {

// The node that the next one of a capturing stream will follow; null if there is none yet.
cudaGraphNode_t LastNode(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  Check(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count));
#else
  Check(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, &nodes, &count));
#endif
  if (status != cudaStreamCaptureStatusActive) throw CudaError("the capture became invalid");
  if (count > 1) throw CudaError("an operation ended on several streams");
  return count == 0 ? nullptr : nodes[0];
}

// The only node that `node` follows; null if it is the first.
cudaGraphNode_t Before(cudaGraphNode_t node) {
  size_t count = 0;
#if CUDART_VERSION >= 13000
  Check(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count));
#else
  Check(cudaGraphNodeGetDependencies(node, nullptr, &count));
#endif
  if (count == 0) return nullptr;
  if (count > 1) throw CudaError("an operation has a node that follows several");
  cudaGraphNode_t before = nullptr;
#if CUDART_VERSION >= 13000
  cudaGraphEdgeData edge = {};
  Check(cudaGraphNodeGetDependencies(node, &before, &edge, &count));
#else
  Check(cudaGraphNodeGetDependencies(node, &before, &count));
#endif
  return before;
}

// The nodes behind `after`, up to `last`.
std::vector<cudaGraphNode_t> NodesBetween(cudaGraphNode_t after, cudaGraphNode_t last) {
  std::vector<cudaGraphNode_t> nodes;
  for (cudaGraphNode_t node = last; node != after; node = Before(node)) {
    if (node == nullptr) throw CudaError("an operation's nodes do not follow those before it");
    nodes.push_back(node);
  }
  std::reverse(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

std::shared_mutex& CapturesOfThisProcess() {
  static auto& mutex = *new std::shared_mutex;
  return mutex;
}

Graphs::~Graphs() {
  for (Made& made : made_) Destroy(made);
}

void Graphs::Destroy(Made& made) {
  if (made.exec != nullptr) cudaGraphExecDestroy(made.exec);
  if (made.graph != nullptr) cudaGraphDestroy(made.graph);
  made = {};
}

void Graphs::Add(const ops::Op& op, const Tensor& workspace) {
  sections_.Add(ops::IdentityOf(op, workspace));
  pending_.push_back({ops::Borrowed(op), workspace.empty() ? Tensor() : workspace.Borrowed()});
}

void Graphs::Drop() {
  sections_.Close();
  pending_.clear();
}

void Graphs::Flush() {
  if (pending_.empty()) return;
  const LaunchSections::Decision decision = sections_.Close();
  switch (decision.what) {
    case LaunchSections::Do::kLaunch: LaunchAll(); break;
    case LaunchSections::Do::kCapture: Make(decision.graph); break;
    case LaunchSections::Do::kReplay: {
      Made& made = made_[static_cast<size_t>(decision.graph)];
      if (Update(made, decision.changed)) {
        Replay(made);
      } else {
        GiveUp(decision.graph, "the numbers of an operation that is not made of kernels alone differ between steps");
        LaunchAll();
      }
      break;
    }
  }
  pending_.clear();
}

void Graphs::LaunchAll() {
  for (const Pending& p : pending_) launch_(p.op, p.workspace);
  counts_.one_by_one += static_cast<int64_t>(pending_.size());
}

void Graphs::Replay(Made& made) {
  Check(cudaGraphLaunch(made.exec, stream_));
  ++counts_.replays;
  counts_.replayed += static_cast<int64_t>(pending_.size());
}

void Graphs::GiveUp(int64_t graph, const std::string& why) {
  sections_.Abandon(graph);  // it is kept until the end, because the GPU may still be at its last launch
  if (why_not_.empty()) why_not_ = why;
}

void Graphs::Make(int64_t graph) {
  made_.resize(static_cast<size_t>(graph) + 1);
  Made& made = made_.back();
  const std::string why = WhyNot(
      [&] {
        made = Capture(0, pending_.size());
        Check(cudaGraphInstantiate(&made.exec, made.graph, 0));
      },
      stream_);
  if (!why.empty()) {
    Destroy(made);
    GiveUp(graph, why);
    return LaunchAll();
  }
  ++counts_.graphs;
  Replay(made);
}

Graphs::Made Graphs::Capture(size_t first, size_t end) {
  Made made;
  const std::shared_lock no_wait(CapturesOfThisProcess());
  Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  const std::string why = [&]() -> std::string {
    try {
      cudaGraphNode_t last = nullptr;
      for (size_t i = first; i < end; ++i) {
        launch_(pending_[i].op, pending_[i].workspace);
        const cudaGraphNode_t now = LastNode(stream_);
        made.nodes.push_back(NodesBetween(last, now));
        last = now;
      }
      return "";
    } catch (const CudaError& e) {
      return e.what();
    }
  }();
  const cudaError_t ended = cudaStreamEndCapture(stream_, &made.graph);
  if (why.empty() && ended == cudaSuccess) return made;
  Destroy(made);
  cudaGetLastError();  // an error of the GPU stays
  if (!why.empty()) throw CudaError(why);
  Check(ended);
  return made;
}

// False if the graph is not what a capture of the section would be now.
bool Graphs::Update(Made& made, const std::vector<size_t>& changed) {
  for (const size_t i : changed) {
    bool done = false;
    const std::string why = WhyNot(
        [&] {
          Made now = Capture(i, i + 1);
          const Nodes &to = made.nodes[i], &from = now.nodes[0];
          bool alike = to.size() == from.size();
          for (size_t n = 0; alike && n < to.size(); ++n) {
            cudaGraphNodeType type = cudaGraphNodeTypeKernel, type_now = cudaGraphNodeTypeKernel;
            Check(cudaGraphNodeGetType(to[n], &type));
            Check(cudaGraphNodeGetType(from[n], &type_now));
            cudaKernelNodeParams params = {};
            alike = type == cudaGraphNodeTypeKernel && type_now == cudaGraphNodeTypeKernel &&
                    cudaGraphKernelNodeGetParams(from[n], &params) == cudaSuccess &&
                    cudaGraphExecKernelNodeSetParams(made.exec, to[n], &params) == cudaSuccess;
          }
          Destroy(now);
          cudaGetLastError();
          done = alike;
        },
        stream_);
    if (!done) {
      if (!why.empty() && why_not_.empty()) why_not_ = why;
      return false;
    }
  }
  counts_.updates += static_cast<int64_t>(changed.size());
  return true;
}

}  // namespace twofold::cuda
