// A fabric: where ranks live and talk.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/run/rank_context.h"

namespace twofold {

// What each rank runs; the bytes it returns travel back (captures do not travel between processes).
using RankFunction = std::function<std::string(RankContext&)>;

struct RunResult {
  absl::Status status;               // the first cause, when any rank failed; see core/base/errors.h for the codes
  std::vector<std::string> results;  // by rank; of a rank that failed: its partial result
  std::vector<std::string> notes;    // of the fabric: calibration used, parts not modelled
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  virtual bool predicted() const = 0;  // times are modelled, not measured
  // Starts `fn` on every rank and returns when all have ended. A rank that fails ends them all.
  virtual RunResult Run(int world_size, const RankFunction& fn) = 0;
};

}  // namespace twofold
