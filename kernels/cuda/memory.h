// Where a caching allocator gets a GPU's memory, and pinned memory of its host, from.
#pragma once

#include "core/memory/source.h"

namespace twofold::cuda {

// cudaMalloc on GPU `gpu`. `limit` bounds what is reserved at one time; zero: no bound but the GPU's. Throws CudaError where something
// else than room is missing. Giving memory back has the host wait for the whole GPU, so nothing still uses it.
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

// Pages of the host that do not move (cudaHostAlloc): transfers to and from them run beside kernels. Of any GPU; `gpu` is the one
// in whose context they are made.
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
