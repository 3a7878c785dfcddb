#include "backends/nccl/session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/nccl/api.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "kernels/cuda/error.h"

namespace twofold::nccl {
namespace {

constexpr int kSharesGpus = 23000;  // the first version that allows several ranks on one GPU
constexpr size_t kMostListed = 16;

std::string NameOfHost(const std::string& machine) { return machine.substr(0, machine.find(' ')); }

std::string BusIdOf(int gpu) {
  cudaDeviceProp p;
  cuda::Check(cudaGetDeviceProperties(&p, gpu));
  return absl::StrFormat("%04x:%02x:%02x.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
}

std::string ToText(const Member& m) { return absl::StrJoin({m.host, m.bus_id, m.gpu_name, m.trouble}, "\n"); }
Member ToMember(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 3));
  return {.host = parts.at(0), .bus_id = parts.at(1), .gpu_name = parts.at(2), .trouble = parts.at(3)};
}

std::string WhereRanksAre(const std::vector<Member>& members) {
  std::vector<std::string> places;
  for (size_t r = 0; r < members.size() && r < kMostListed; ++r) {
    places.push_back(StrCat("rank ", r, " on ", NameOfHost(members[r].host), ", ", members[r].bus_id, " (",
                            members[r].gpu_name, ")"));
  }
  std::string text = absl::StrJoin(places, "; ");
  if (members.size() > kMostListed) StrAppend(&text, "; and ", members.size() - kMostListed, " more");
  return text;
}

// The environment variables that configure this process's NCCL.
std::string Settings() {
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (text.starts_with("NCCL_") && !text.starts_with("NCCL_COMM_BLOCKING=")) settings.emplace_back(*variable);
  }
  return absl::StrJoin(settings, ", ");
}

}  // namespace

std::string ToCard(const absl::StatusOr<ncclUniqueId>& id) {
  return id.ok() ? StrCat("+", std::string(id->internal, sizeof id->internal))
                 : StrCat("-", std::string(id.status().message()));
}

absl::StatusOr<ncclUniqueId> FromCard(const std::string& card) {
  ncclUniqueId id{};
  if (card.size() != 1 + sizeof id.internal || card.front() != '+') {
    return Internal("fabric.nccl: rank 0: ", card.substr(std::min<size_t>(card.size(), 1)));
  }
  std::memcpy(id.internal, card.data() + 1, sizeof id.internal);
  return id;
}

absl::Status CheckOwnGpus(const std::vector<Member>& members, int nccl_version, bool several_enabled) {
  if (nccl_version >= kSharesGpus && several_enabled) return absl::OkStatus();
  std::map<std::pair<std::string, std::string>, size_t> users;
  for (size_t r = 0; r < members.size(); ++r) {
    const auto [first, is_new] = users.try_emplace({members[r].host, members[r].bus_id}, r);
    if (is_new) continue;
    const std::string way =
        nccl_version >= kSharesGpus
            ? "set NCCL_MULTI_RANK_GPU_ENABLE=1, start fewer processes per host, or list more GPUs in cuda.gpus"
            : StrCat("NCCL ", VersionText(nccl_version),
                     " needs a GPU for each rank (from 2.30 on, ranks can share one with "
                     "NCCL_MULTI_RANK_GPU_ENABLE=1); start fewer processes per host, or list more GPUs in cuda.gpus");
    return InvalidArgument("fabric.nccl: ranks ", first->second, " and ", r, " are both on GPU ", members[r].bus_id,
                           " (", members[r].gpu_name, ") of ", NameOfHost(members[r].host), "; ", way);
  }
  return absl::OkStatus();
}

absl::StatusOr<Session*> Session::Get(const spec::Spec& spec, const host::CudaChoice& gpus) {
  static Session* session = nullptr;
  static absl::Status status;
  if (session == nullptr) {
    session = new Session();  // never destroyed: Finish ends it
    status = session->Start(spec, gpus);
  }
  if (!status.ok()) return status;
  return session;
}

absl::Status Session::Start(const spec::Spec& spec, const host::CudaChoice& gpus) try {
  if (absl::Status met = Meet(spec, "fabric.nccl"); !met.ok()) return met;
  if (control().options().newcomer) {
    return FailedPrecondition(
        "fabric.nccl: no process can join a run on GPUs; use train.elastic.spare_replicas, or fabric gloo");
  }
  const absl::StatusOr<const Api*> nccl = FindNccl();
  const std::string trouble = nccl.ok() ? "" : std::string(nccl.status().message());
  if (const absl::Status met = Introduce(trouble, gpus.Of(place_.rank_here)); !met.ok()) {
    Part();  // rank 0's waits until the others have received it, too
    return met;
  }
  std::atexit([] { Finish(); });
  return absl::OkStatus();
} catch (const std::exception& e) {
  GiveUp();
  return FailedPrecondition("fabric.nccl: ", e.what());
}

absl::Status Session::Introduce(const std::string& trouble, int gpu) {
  const Member self{.host = MachineId(), .bus_id = BusIdOf(gpu), .gpu_name = host::NameOfGpu(gpu), .trouble = trouble};
  const absl::StatusOr<std::vector<std::string>> all = control().AllGather(ToText(self));
  if (!all.ok()) return absl::Status(all.status().code(), StrCat("fabric.nccl: ", std::string(all.status().message())));
  std::vector<Member> members;
  for (const std::string& text : *all) members.push_back(ToMember(text));
  for (size_t r = 0; r < members.size(); ++r) {
    if (members[r].trouble.empty()) continue;
    return FailedPrecondition("fabric.nccl: rank ", r, " (", NameOfHost(members[r].host), "): ", members[r].trouble);
  }
  const char* const several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (const absl::Status own =
          CheckOwnGpus(members, Nccl().version, several != nullptr && std::strcmp(several, "1") == 0);
      !own.ok()) {
    return own;
  }
  notes_ = {
      StrCat("NCCL ", VersionText(Nccl().version), " (", Nccl().from, "); rendezvous: ", control().options().described),
      StrCat("GPUs: ", WhereRanksAre(members))};
  if (const std::string settings = Settings(); !settings.empty())
    notes_.push_back(StrCat("NCCL environment variables: ", settings));
  return absl::OkStatus();
}

absl::StatusOr<ncclUniqueId> Session::NewId() {
  auto make = []() -> absl::StatusOr<ncclUniqueId> {
    try {
      ncclUniqueId id{};
      Nccl().Check(Nccl().GetUniqueId(&id), "ncclGetUniqueId");
      return id;
    } catch (const NcclError& e) {
      return Internal(e.what());
    }
  };
  const absl::StatusOr<std::string> card = control().Broadcast(rank() == 0 ? ToCard(make()) : std::string());
  if (!card.ok())
    return absl::Status(card.status().code(), StrCat("fabric.nccl: ", std::string(card.status().message())));
  return FromCard(*card);
}

void Session::Began(const std::weak_ptr<RunParts>& parts) {
  std::lock_guard lock(mutex_);
  parts_ = parts;
}

void Session::CutOff() {
  std::lock_guard lock(mutex_);
  if (const std::shared_ptr<RunParts> parts = parts_.lock()) parts->communicators.AbortAll();
}

void Session::Finish() {
  const absl::StatusOr<Session*> session = Get({}, {});
  if (!session.ok() || (*session)->given_up()) return;
  (*session)->Part();
}

}  // namespace twofold::nccl
