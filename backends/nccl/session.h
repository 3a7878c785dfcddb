// NCCL in this process: its GPU, and the connection to the run's control plane.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/bootstrap/session.h"
#include "backends/host/cuda.h"
#include "backends/nccl/group.h"
#include "core/proto/spec.pb.h"

namespace twofold::nccl {

class Session : public BootstrappedSession {
 public:
  // Finds the other processes, as the spec of the first call says. Errors name what is missing: NCCL, a process, or a
  // separate GPU. Every call returns the same object; main thread only.
  static absl::StatusOr<Session*> Get(const spec::Spec& spec, const host::CudaChoice& gpus);

  // Collective over the processes.
  absl::StatusOr<ncclUniqueId> NewId();
  // Registers the run or generation that begins, for CutOff and Disconnect.
  void Began(const std::weak_ptr<RunParts>& parts);

  // Of the run that was last begun, in all generations: a group's number tells which it is of.
  std::shared_ptr<Offers> offers;

  void CutOff() override;
  void Disconnect() override { CutOff(); }
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  Session() = default;
  absl::Status Start(const spec::Spec& spec, const host::CudaChoice& gpus);
  // Exchanges with all processes what each says about itself; `trouble`: why this one cannot take part.
  absl::Status Introduce(const std::string& trouble, int gpu);
  static void Finish();

  std::vector<std::string> notes_;
  std::mutex mutex_;
  std::weak_ptr<RunParts> parts_;
};

// What rank 0 broadcasts: a communicator's id, or the reason why there is none. Without that reason the others would
// wait forever.
std::string ToCard(const absl::StatusOr<ncclUniqueId>& id);
absl::StatusOr<ncclUniqueId> FromCard(const std::string& card);

// What one process says about itself.
struct Member {
  std::string host, bus_id, gpu_name;  // "node3", "0000:3b:00.0", "NVIDIA H200"
  std::string trouble;
};
// INVALID_ARGUMENT if two of `members` (indexed by rank) have the same GPU and `nccl_version` (22809 is 2.28.9) does
// not support that, or it has not been enabled (NCCL_MULTI_RANK_GPU_ENABLE, as the caller found it).
absl::Status CheckOwnGpus(const std::vector<Member>& members, int nccl_version, bool several_enabled);

}  // namespace twofold::nccl
