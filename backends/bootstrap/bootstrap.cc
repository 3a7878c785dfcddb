#include "backends/bootstrap/bootstrap.h"

#include "backends/bootstrap/kinds.h"
#include "backends/launch/launch.h"
#include "core/base/status.h"

namespace twofold {
namespace {

class Alone final : public Bootstrap {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  std::string Describe() const override { return "none (a single process)"; }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) override {
    return std::vector<std::string>{std::move(bytes)};
  }
  absl::StatusOr<std::string> Broadcast(std::string bytes) override { return bytes; }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> MakeBootstrap(const spec::Spec& spec) {
  const Launch launch = LaunchedAs();
  if (!launch.error.empty()) return InvalidArgument("the environment of this process: ", launch.error);
  if (launch.size == 1) return std::make_unique<Alone>();
  if (launch.by_mpi) {
    auto by_mpi = MakeMpiBootstrap(spec, launch);
    if (!absl::IsUnimplemented(by_mpi.status())) return by_mpi;
  }
  return MakeStoreBootstrap(spec, launch);
}

}  // namespace twofold
