// How the ranks that share a batch put statistics over it together: what a synchronised batch normalisation needs of
// others, without knowing who they are. Strategies implement it over a process group.
#pragma once

#include "core/device/device.h"

namespace twofold::nn {

class StatisticsReducer {
 public:
  virtual ~StatisticsReducer() = default;
  virtual int ranks() const = 0;
  // Both are collective, and are in effect for what is launched on the compute stream afterwards.
  virtual void Gather(const Tensor& part, Tensor& all) = 0;  // all.numel == part.numel * ranks, by rank
  virtual void Sum(Tensor& values) = 0;                      // element by element, over the ranks
};

}  // namespace twofold::nn
