#include "backends/bootstrap/session.h"

#include <memory>
#include <utility>

#include "backends/bootstrap/bootstrap.h"
#include "core/base/strings.h"

namespace twofold {

absl::Status BootstrappedSession::Meet(const spec::Spec& spec, const std::string& fabric) {
  absl::StatusOr<std::unique_ptr<control::Client>> client = twofold::Meet(spec);
  if (!client.ok())
    return absl::Status(client.status().code(), StrCat(fabric, ": ", std::string(client.status().message())));
  Attach(*std::move(client));
  return absl::OkStatus();
}

}  // namespace twofold
