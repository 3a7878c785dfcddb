// One attention for cuDNN: the graph of library_attention.h as cuDNN descriptors, and the engine that cuDNN chose for
// it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/library_attention.h"

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

class AttentionPlan {
 public:
  // Queries the engines. Throws CudaError if a descriptor is refused.
  AttentionPlan(const Cudnn& cudnn, const LibraryAttention& a, const PlannedFor& where);

  struct Engine {
    BackendDescriptor config;
    size_t workspace_bytes;
    // false only if cuDNN says so: it says nothing about attention engines, which behave as LibraryAttention asks
    bool repeatable;
  };
  // The proposed engines, best first; empty if cuDNN has none for this graph.
  const std::vector<Engine>& engines() const { return engines_; }

  // Makes the plan of the first engine that needs at most `most_bytes` and is as repeatable as required, and compiles
  // its kernels. Returns "" on success, otherwise the reason.
  std::string Make(size_t most_bytes);
  // tensors: addresses by GraphOperand, null for those that the graph does not have; all aligned to 16 bytes.
  void Run(cudnnHandle_t handle, const GraphAddresses& tensors, std::byte* workspace);
  // The addresses as cuDNN takes them. They are kept, because making them costs several calls and a training step has
  // the same addresses as the one before. Valid until the next call.
  const BackendDescriptor& PackOf(const GraphAddresses& tensors, std::byte* workspace);
  static constexpr size_t kMostPacks = 256;  // then all are made anew

 private:
  void Describe();
  void AskForEngines();

  const Cudnn& cudnn_;
  const LibraryAttention attention_;
  const PlannedFor where_;
  const AttentionGraph graph_;
  std::vector<BackendDescriptor> descriptors_;  // tensors first, in the graph's order
  std::vector<cudnnBackendDescriptor_t> operations_;
  BackendDescriptor operation_graph_;
  std::vector<Engine> engines_;
  std::unique_ptr<BackendDescriptor> plan_;
  std::vector<float> constants_;  // values of the graph's constants, to which packs point
  std::map<std::pair<GraphAddresses, std::byte*>, BackendDescriptor> packs_;
};

}  // namespace twofold::cuda
