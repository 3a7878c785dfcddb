// NCCL in this process: which GPU it uses, how the processes of the run found each other, and the watch beside them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/bootstrap/bootstrap.h"
#include "backends/host/cuda.h"
#include "backends/nccl/group.h"
#include "backends/processes/session.h"
#include "core/proto/spec.pb.h"

namespace twofold::nccl {

class Session : public processes::Session {
 public:
  // Finds the other processes, by the spec of the first call, and starts the watch. Errors name what is missing: NCCL, a process,
  // a GPU of its own. The same object in every call; main thread only.
  static absl::StatusOr<Session*> Get(const spec::Spec& spec, const host::CudaChoice& gpus);

  // Collective over the processes.
  absl::StatusOr<ncclUniqueId> NewId();
  // The run that begins, for CutOff.
  void Began(const std::weak_ptr<RunParts>& parts);

  void CutOff() override;
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  Session() = default;
  absl::Status Start(const spec::Spec& spec, const host::CudaChoice& gpus);
  // What every process tells the others of itself; `trouble`: why it cannot take part.
  absl::Status Introduce(const std::string& trouble, int gpu);
  static void Finish();

  std::unique_ptr<Bootstrap> bootstrap_;
  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::weak_ptr<RunParts> parts_;
};

// What rank 0 hands to all: a communicator's id, or in its place why there is none, for which the others would wait else.
std::string ToCard(const absl::StatusOr<ncclUniqueId>& id);
absl::StatusOr<ncclUniqueId> FromCard(const std::string& card);

// One process as it tells the others.
struct Member {
  std::string host, bus_id, gpu_name;  // "node3", "0000:3b:00.0", "NVIDIA H200"
  std::string trouble;
};
// INVALID_ARGUMENT: two of `members`, by rank, have the same GPU, which `nccl_version` (22809 is 2.28.9) cannot do, or has not been
// allowed to (NCCL_MULTI_RANK_GPU_ENABLE, as the caller found it).
absl::Status CheckOwnGpus(const std::vector<Member>& members, int nccl_version, bool several_enabled);

}  // namespace twofold::nccl
