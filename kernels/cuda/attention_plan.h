// One attention as cuDNN runs it: the graph of library_attention.h as its descriptors, and the engine that it chose for it.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/library_attention.h"

namespace twofold::cuda {

// A descriptor of cuDNN's graph interface. It destroys itself; those that were set in it must live as long. Throws CudaError.
class BackendDescriptor {
 public:
  BackendDescriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t get() const { return raw_.get(); }
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  template <class T>
  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) { Set(name, type, 1, &value); }
  void Set(cudnnBackendAttributeName_t name, const BackendDescriptor& other) {
    Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.get());
  }
  void Finalize();
  // Writes up to `room` values, and returns how many there are.
  int64_t Get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, void* values) const;

 private:
  struct Destroy {
    const Cudnn* cudnn;
    void operator()(void* d) const { cudnn->BackendDestroyDescriptor(d); }
  };
  const Cudnn* cudnn_;
  std::unique_ptr<void, Destroy> raw_;
};

// Where a plan is to run: a handle's GPU, or one that a description stands for, so that a plan can be made, but not run, where no
// such GPU is (BACKEND_DEVICEPROP; cuDNN's developer guide, "Deviceless compilation").
struct PlannedFor {
  cudnnHandle_t handle = nullptr;
  const BackendDescriptor* description = nullptr;
};

class AttentionPlan {
 public:
  // Asks for engines. Throws CudaError where a descriptor is refused.
  AttentionPlan(const Cudnn& cudnn, const LibraryAttention& a, const PlannedFor& where);

  struct Engine {
    BackendDescriptor config;
    size_t workspace_bytes;
    bool repeatable;  // unless it is said not to be: cuDNN says nothing of attention's, which are what LibraryAttention asks for
  };
  // Those that are proposed, best first; none where cuDNN has none here.
  const std::vector<Engine>& engines() const { return engines_; }

  // Makes the plan of the first engine that wants no more than `most_bytes` and is as repeatable as asked, compiling its kernels.
  // Returns why there is none, "" where there is.
  std::string Make(size_t most_bytes);
  // tensors: addresses by GraphOperand, null where the graph has none; all aligned to 16 bytes.
  void Run(cudnnHandle_t handle, const GraphAddresses& tensors, std::byte* workspace) const;

 private:
  void Describe();
  void AskForEngines();

  const Cudnn& cudnn_;
  const LibraryAttention attention_;
  const PlannedFor where_;
  const AttentionGraph graph_;
  std::vector<BackendDescriptor> descriptors_;  // of tensors first, in the graph's order
  std::vector<cudnnBackendDescriptor_t> operations_;
  BackendDescriptor operation_graph_;
  std::vector<Engine> engines_;
  std::unique_ptr<BackendDescriptor> plan_;
};

}  // namespace twofold::cuda
