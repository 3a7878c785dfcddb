#include "backends/bootstrap/session.h"

#include <stdexcept>
#include <utility>

#include "core/base/strings.h"

namespace twofold {

absl::Status BootstrappedSession::Meet(const spec::Spec& spec, const std::string& fabric) {
  absl::StatusOr<std::unique_ptr<Bootstrap>> bootstrap = MakeBootstrap(spec);
  if (!bootstrap.ok())
    return absl::Status(bootstrap.status().code(), StrCat(fabric, ": ", std::string(bootstrap.status().message())));
  bootstrap_ = *std::move(bootstrap);
  place_ = {.rank = bootstrap_->rank(),
            .processes = bootstrap_->size(),
            .rank_here = bootstrap_->local_rank(),
            .processes_here = bootstrap_->local_size()};
  return absl::OkStatus();
}

void BootstrappedSession::StartWatch() {
  processes::Session::StartWatch({.rank = place_.rank,
                                  .processes = place_.processes,
                                  .one_host = one_host(),
                                  .bind = bootstrap_->bind(),
                                  .address = bootstrap_->address(),
                                  .broadcast = [this](std::string& bytes) {
                                    absl::StatusOr<std::string> all = bootstrap_->Broadcast(bytes);
                                    if (!all.ok()) throw std::runtime_error(std::string(all.status().message()));
                                    bytes = *std::move(all);
                                  }});
}

void BootstrappedSession::Part() { bootstrap_.reset(); }

}  // namespace twofold
