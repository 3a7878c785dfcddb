// How the processes of a run find each other before they can communicate: what rank 0 has to tell (the unique id of a NCCL
// communicator, where the watch's hub listens) reaches all, and every process learns who sits on its host.
//
// Where MPI's launcher has started the processes, and the build has MPI, MPI does it; else a store that rank 0 serves
// (backends/rendezvous). From the main thread; calls are collective over the processes and in the same order.
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
  virtual std::string address() const { return ""; }  // of rank 0's host, as the others can reach it; "": not known
  // Where, among this host's addresses, rank 0 is to listen for whatever the others need of it; "": not told. At rank 0.
  virtual std::string bind() const { return ""; }
  virtual std::string Describe() const = 0;  // "MPI", "the store at node3:29500": for a report's notes

  // The bytes of every rank, by rank. DEADLINE_EXCEEDED or UNAVAILABLE naming who is missing or lost.
  virtual absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) = 0;
  // The bytes of rank 0, whose own they are there. Likewise.
  virtual absl::StatusOr<std::string> Broadcast(std::string bytes) = 0;
};

// By how this process was launched (backends/launch/launch.h) and fabric.rendezvous. Returns once all processes have come; errors name
// whoever never came, came twice or was lost, or which variable is missing or wrong, and what would be right.
absl::StatusOr<std::unique_ptr<Bootstrap>> MakeBootstrap(const spec::Spec& spec);

}  // namespace twofold
