// `twofold calibrate`: this machine's kernels, links between threads and small training jobs, measured into a profile.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

// The measurements of all ranks, row by row, and the load meanwhile.
struct Measured {
  Samples samples;
  double wall = 0;
  report::Load load;
};

// Runs `fn` on a new fabric of `ranks` ranks, which are threads of this process.
absl::StatusOr<Measured> RunOn(int ranks, int threads, const RankFunction& fn, spec::Spec spec = {});

struct MachineOptions {
  std::string out;  // what it has of other fabrics is kept; a scratch file stands beside it meanwhile
  int threads = 1;  // per rank; as many ranks as fit on the cores run at once
  bool quick = false;
};
struct MachineProfile {
  profile::Profile profile;
  int linked;  // ranks whose links were measured
};
// Tells its progress on stderr. Writes no file that stays. CANCELLED if it is interrupted.
absl::StatusOr<MachineProfile> CalibrateMachine(const MachineOptions& options);

}  // namespace twofold::calibrate
