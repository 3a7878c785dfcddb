// One graph (library_graph.h) as cuDNN's descriptors, and the engine that cuDNN chose for it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/library_graph.h"

namespace twofold::cuda {

// A descriptor of cuDNN's graph API. It destroys itself. Descriptors that were set in it must live as long as it does.
// Throws CudaError.
class BackendDescriptor {
 public:
  BackendDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return raw_.get(); }
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  template <class T>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    Set(name, type, 1, &value);
  }
  void Set(cudnnBackendAttributeName_t name, const BackendDescriptor& other) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  void Finalize();
  // Writes up to `room` values and returns how many there are.
  int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, void* values) const;

 private:
  struct Destroy {
    const Cudnn* cudnn;
    void operator()(void* d) const { cudnn->BackendDestroyDescriptor(d); }
  };
  const Cudnn* cudnn_;
  std::unique_ptr<void, Destroy> raw_;
};

// Where a plan is to run: the GPU of a handle, or a GPU given by a description. With a description, a plan can be made,
// but not run, on a machine without such a GPU (BACKEND_DEVICEPROP; cuDNN's developer guide, "Deviceless compilation").
struct PlannedFor {
  cudnnHandle_t handle = nullptr;
  const BackendDescriptor* description = nullptr;
};

class GraphPlan {
 public:
  // Queries the engines. Throws CudaError if a descriptor is refused.
  GraphPlan(const Cudnn& cudnn, LibraryGraph graph, const PlannedFor& where);

  // What cuDNN says of an engine. Of repeatability and rounding it says nothing for attention's engines, which behave
  // as LibraryAttention asks.
  struct Engine {
    BackendDescriptor config;
    size_t workspace_bytes;
    bool repeatable;    // the same results in each run
    bool tensor_cores;  // they round F32 operands to TF32
    bool rounds;        // operands or sums further than their types
  };
  // The proposed engines, best first; empty if cuDNN has none for this graph.
  const std::vector<Engine>& engines() const { return engines_; }

  bool WantsMoreThan(size_t workspace_bytes) const;  // whether any of them does

  struct Needs {
    size_t most_bytes;         // of workspace
    bool repeatable = true;    // not with an engine of which cuDNN says that it is not
    bool tensor_cores = true;  // they may be used
  };
  // Makes the plan of the first engine that meets the needs and rounds no further than the types, and compiles its
  // kernels. Returns "" on success, otherwise the reason.
  std::string Make(const Needs& needs);
  // tensors: addresses by GraphOperand, null for those that the graph does not have; aligned as GraphTensor says.
  void Run(cudnnHandle_t handle, const GraphAddresses& tensors, std::byte* workspace);
  // The addresses as cuDNN takes them. They are kept, because making them costs several calls and a training step has
  // the same addresses as the one before. Valid until the next call.
  const BackendDescriptor& PackOf(const GraphAddresses& tensors, std::byte* workspace);
  static constexpr size_t kMostPacks = 256;  // then all are made anew

 private:
  void Describe();
  void AskForEngines(cudnnBackendHeurMode_t mode);
  // "" if the plan is made now.
  std::string TryToMake(const Engine& engine, size_t most_bytes);

  const Cudnn& cudnn_;
  const LibraryGraph graph_;
  const PlannedFor where_;
  std::vector<BackendDescriptor> descriptors_;  // tensors first, in the graph's order
  std::vector<cudnnBackendDescriptor_t> operations_;
  BackendDescriptor operation_graph_;
  std::vector<Engine> engines_;
  std::unique_ptr<BackendDescriptor> plan_;
  std::vector<float> constants_;  // values of the graph's constants, to which packs point
  std::map<std::pair<GraphAddresses, std::byte*>, BackendDescriptor> packs_;
};

}  // namespace twofold::cuda
