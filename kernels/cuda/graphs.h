// Launches operations of a stream by CUDA graphs where they repeat (core/device/launch_sections.h).
//
// Operations are kept until their section ends, and then launched: one by one, or by a graph. Kept operations borrow
// their tensors: memory is reused in the stream's order, which keeping does not change. Whoever enqueues anything else
// on the stream, lets another stream wait for it, or returns memory to CUDA must call Flush first.
//
// A section is captured (cudaStreamBeginCapture, thread-local: other ranks of this process may allocate meanwhile),
// instantiated and launched. Numbers that differ in a later step become parameters of the graph's kernel nodes
// (cudaGraphExecKernelNodeSetParams), read from a capture of that operation alone. If CUDA refuses a capture or an
// update, the section is launched one by one from then on, and why_not() says why. Nothing is allocated from CUDA while
// a stream captures; the driver keeps memory for each graph, which no ledger counts.
//
// Used from the rank's thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/device/launch_sections.h"
#include "core/device/ops.h"

namespace twofold::cuda {

// Held shared while a stream of this process is captured, and alone by who waits for a whole GPU, which CUDA forbids
// meanwhile on any thread (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations" of stream capture).
std::shared_mutex& CapturesOfThisProcess();

class Graphs {
 public:
  // `launch` enqueues an operation on `stream`. Both must outlive this.
  using LaunchOne = std::function<void(const ops::Op& op, const Tensor& workspace)>;
  Graphs(cudaStream_t stream, LaunchOne launch) : stream_(stream), launch_(std::move(launch)) {}
  ~Graphs();
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void Add(const ops::Op& op, const Tensor& workspace);
  bool full() const { return sections_.full(); }  // Flush should be called
  void Flush();                                   // launches what was added
  void Drop();                                    // forgets it: after an error

  struct Counts {
    int64_t graphs = 0;      // made
    int64_t replays = 0;     // graphs launched, with their first launch
    int64_t replayed = 0;    // operations that graphs have launched
    int64_t one_by_one = 0;  // operations launched as usual
    int64_t updates = 0;     // operations whose numbers were changed in a graph
  };
  const Counts& counts() const { return counts_; }
  // Why a section could not be captured or updated, the first one; "" if all could.
  const std::string& why_not() const { return why_not_; }

 private:
  struct Pending {
    ops::Op op;
    Tensor workspace;  // borrowed
  };
  using Nodes = std::vector<cudaGraphNode_t>;
  struct Made {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    std::vector<Nodes> nodes;  // of each operation, in order
  };
  // A capture of these operations: their graph, and the nodes of each. Throws CudaError.
  Made Capture(size_t first, size_t end);
  static void Destroy(Made& made);
  void Make(int64_t graph);
  bool Update(Made& made, const std::vector<size_t>& changed);
  void LaunchAll();
  void Replay(Made& made);
  void GiveUp(int64_t graph, const std::string& why);

  const cudaStream_t stream_;
  const LaunchOne launch_;
  LaunchSections sections_;
  std::vector<Pending> pending_;
  std::vector<Made> made_;  // by number
  Counts counts_;
  std::string why_not_;
};

}  // namespace twofold::cuda
