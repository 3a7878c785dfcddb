// The Gloo fabric: every rank is a CPU process; they are connected by TCP (backends/processes/fabric.h). `twofold
// launch`, torchrun or Slurm start them, or MPI's launcher.
//
// all_reduce runs around a ring, so its sums of F32 may differ from those of other fabrics in the last bits, and BF16
// and F16 are rounded at every step; reduce, too. reduce_scatter adds in the order of the ranks, and rounds once.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Reads train.threads_per_rank, fabric.timeout_s, fabric.rendezvous, device and emulated.
absl::StatusOr<std::unique_ptr<Fabric>> MakeGlooFabric(const spec::Spec& spec);

// Why this build has no Gloo; "" if it has.
std::string WhyNoGloo();

}  // namespace twofold
