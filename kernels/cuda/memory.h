// The sources from which a caching allocator gets GPU memory and pinned host memory.
#pragma once

#include "core/memory/source.h"

namespace twofold::cuda {

// cudaMalloc on GPU `gpu`. `limit` bounds the memory reserved at one time; zero: only the GPU's size bounds it. Throws
// CudaError on errors other than lack of memory. Freeing memory makes the host wait for the whole GPU, so nothing uses
// it any more.
class GpuSource : public MemorySource {
 public:
  explicit GpuSource(int gpu, Bytes limit = Bytes(0)) : gpu_(gpu), limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return false; }

 private:
  const int gpu_;
  const Bytes limit_;
  Bytes reserved_;
};

// Page-locked host memory (cudaHostAlloc): transfers to and from it run concurrently with kernels. Usable with any GPU;
// `gpu` is the one in whose context it is allocated.
class PinnedSource : public MemorySource {
 public:
  explicit PinnedSource(int gpu, Bytes limit = Bytes(0)) : gpu_(gpu), limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return true; }

 private:
  const int gpu_;
  const Bytes limit_;
  Bytes reserved_;
};

}  // namespace twofold::cuda
