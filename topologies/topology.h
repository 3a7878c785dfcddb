// A topology: endpoints, directed links and a routing policy. No simulator in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace twofold {

struct Link {
  std::string name;
  BytesPerSecond bandwidth;
};

// Endpoints are numbered from 0; one endpoint is one rank's device. Immutable once built.
class Topology {
 public:
  virtual ~Topology() = default;
  virtual std::string_view kind() const = 0;
  virtual int endpoints() const = 0;
  virtual const std::vector<Link>& links() const = 0;
  // Replaces `route` by the indices of the links from one endpoint to another, in order; from != to.
  virtual void Route(int from, int to, std::vector<int>& route) const = 0;
  // End to end, for a message of no bytes.
  virtual Seconds Latency(int from, int to) const = 0;
  // Every endpoint sees the same network (any two can be exchanged): then identical ranks may be folded.
  virtual bool symmetric() const = 0;
  // What one endpoint's traffic meets when nothing else is in flight: the alpha and beta by which collective algorithms
  // are chosen.
  virtual Seconds alpha() const = 0;
  virtual BytesPerSecond bandwidth() const = 0;
};

}  // namespace twofold
