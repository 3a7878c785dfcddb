// A fabric: where ranks live and talk.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/run/rank_context.h"
#include "core/run/rank_results.h"

namespace twofold {

// What each rank runs; the bytes it returns travel back (captures do not travel between processes).
using RankFunction = std::function<std::string(RankContext&)>;

struct RunResult {
  absl::Status status;             // the first cause, when any rank failed; see core/base/errors.h for the codes
  RankResults results;             // where the fabric speaks; of a rank that failed: its partial result
  std::vector<std::string> notes;  // of the fabric: calibration used, parts not modelled
  // Predicted: what rank 0's groups ran, by group, operation and bytes. outcome.proto's Ran has the same fields.
  struct Ran {
    std::string group, operation;
    int64_t bytes = 0;
    std::string library, algorithm, protocol;
  };
  std::vector<Ran> ran = {};
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  virtual bool predicted() const = 0;  // times are modelled, not measured
  // Where ranks are processes, all of them call Run with the same arguments; this one prints and writes for all. Asked
  // after Run, since another may have to speak when the first is lost.
  virtual bool speaks() const { return true; }
  // Where ranks are processes: how many were started, which is the number of ranks that Run expects. 0: ranks are not
  // processes that somebody else started; Run makes as many as it is asked for.
  virtual int processes() const { return 0; }
  // Whether Run could be called with this number of ranks: OK, or what the user should do.
  virtual absl::Status Accepts(int world_size) const { return world_size >= 1 ? absl::OkStatus() : absl::InvalidArgumentError("no ranks"); }
  // Starts `fn` on every rank and returns when all have ended. A rank that fails ends them all.
  virtual RunResult Run(int world_size, const RankFunction& fn) = 0;
};

}  // namespace twofold
