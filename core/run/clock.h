// Time as a rank sees it: wall time on real fabrics, virtual time on the simulated one. Code above the fabric interface
// must use only this clock.
#pragma once

#include "core/base/units.h"

namespace twofold {

class Clock {
 public:
  virtual ~Clock() = default;
  // Time since the run began. On an asynchronous device this is the host's time: synchronize first to time the device.
  virtual Seconds Now() = 0;
};

}  // namespace twofold
