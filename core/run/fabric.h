// A fabric: runs the ranks and connects them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/run/link_loads.h"
#include "core/run/rank_context.h"
#include "core/run/rank_results.h"

namespace twofold {

// The function that each rank runs. Fabric::Run returns the bytes that it returns. If ranks are processes, captures are
// not sent between them.
using RankFunction = std::function<std::string(RankContext&)>;

struct RunResult {
  absl::Status status;             // the first cause, if any rank failed; see core/base/errors.h for the codes
  RankResults results;             // only in the process where speaks() is true; a failed rank has its partial result
  std::vector<std::string> notes;  // what readers must know: the calibration that was used, effects not modelled
  // Predictions only: what rank 0's groups ran, by group, operation and bytes. Same fields as Ran in outcome.proto.
  struct Ran {
    std::string group, operation;
    int64_t bytes = 0;
    std::string library, algorithm, protocol;
  };
  std::vector<Ran> ran = {};
  // Predictions only: what the simulation itself cost, part by part. Absent: not known, or it has none.
  struct Cost {
    std::string part;
    std::optional<double> seconds = std::nullopt;
    std::optional<int64_t> bytes = std::nullopt, count = std::nullopt;
  };
  std::vector<Cost> costs = {};
  LinkLoads links = {};  // predictions only
  // Predictions only: the faults of the spec that did happen, in the order in which they did. Notes tell of them, too.
  // Same fields as Struck in outcome.proto.
  struct Struck {
    int fault = 0, rank = 0, generation = 0;
    std::string text;
    std::optional<double> seconds = std::nullopt;
    std::string damaged = {};
    bool deleted = false;
  };
  std::vector<Struck> struck = {};
  // Of a simulation: as in report.proto.
  double folding_adds = 0;
};

class Fabric {
 public:
  virtual ~Fabric() = default;
  virtual std::string_view name() const = 0;
  virtual bool predicted() const = 0;  // times are modelled, not measured
  // If ranks are processes, all of them call Run with the same arguments, and the process where this is true prints and
  // writes for all. Call it after Run: if the first process is lost, another one may have to speak.
  virtual bool speaks() const { return true; }
  // The number of processes if a launcher started the ranks as processes; Run then expects this number as world_size.
  // 0: Run itself creates as many ranks as requested.
  virtual int processes() const { return 0; }
  // OK if Run can be called with this number of ranks. Otherwise the error says what the user should do.
  virtual absl::Status Accepts(int world_size) const {
    return world_size >= 1 ? absl::OkStatus() : InvalidArgument("at least one rank is needed");
  }
  // Runs `fn` on every rank and returns when all have ended. A failure of one rank ends all ranks.
  virtual RunResult Run(int world_size, const RankFunction& fn) = 0;
};

}  // namespace twofold
