// How the ranks that share a batch combine statistics over it: the communication of a synchronised batch normalisation,
// without knowledge of who the other ranks are. Strategies implement it over a process group.
#pragma once

#include "core/device/device.h"

namespace twofold::nn {

class StatisticsReducer {
 public:
  virtual ~StatisticsReducer() = default;
  virtual int ranks() const = 0;
  // Both are collective. Their result is available to what is launched on the compute stream afterwards.
  virtual void Gather(const Tensor& part, Tensor& all) = 0;  // all.numel == part.numel * ranks, in rank order
  virtual void Sum(Tensor& values) = 0;                      // element by element, over the ranks
};

}  // namespace twofold::nn
