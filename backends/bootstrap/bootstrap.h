// How the processes of a run find each other before they can communicate. Rank 0's data (a NCCL communicator's unique
// id, the address of the watch's hub) reaches all processes, and every process learns which other processes are on its
// host.
//
// If MPI's launcher started the processes and the build has MPI, MPI is used. Otherwise rank 0 serves a store
// (backends/rendezvous). Call from the main thread only. Calls are collective over the processes and must come in the
// same order on all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"

namespace twofold {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int local_rank() const = 0;  // among the processes of this host
  virtual int local_size() const = 0;
  virtual std::string address() const { return ""; }  // of rank 0's host, as the others reach it; "" if unknown
  // The address of this host on which rank 0 should listen for connections from the others; "" if not specified. Call
  // at rank 0.
  virtual std::string bind() const { return ""; }
  virtual std::string Describe() const = 0;  // "MPI", "the store at node3:29500"; for the report's notes

  // Returns the bytes of every rank, indexed by rank. DEADLINE_EXCEEDED or UNAVAILABLE, naming the missing or lost
  // process.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) = 0;
  // Returns rank 0's `bytes`; the other ranks' are ignored. Same errors.
  virtual absl::StatusOr<std::string> Broadcast(std::string bytes) = 0;
};

// Chooses by how this process was launched (backends/launch/launch.h) and by fabric.rendezvous. Returns once all
// processes have arrived. An error names the process that never came, came twice or was lost, or the variable that is
// missing or wrong and its correct value.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeBootstrap(const spec::Spec& spec);

}  // namespace twofold
