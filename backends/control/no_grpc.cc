// In place of the server and the connections to it, in builds without gRPC.
#include "backends/control/link.h"
#include "backends/control/server.h"

namespace twofold::control {
namespace {

absl::Status WhyNot() {
  return absl::UnimplementedError(
      "this build has no gRPC (libgrpc++-dev was not found when it was configured, or this is a build for the thread "
      "sanitizer), so only single processes can run");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const Options&) { return WhyNot(); }

absl::StatusOr<Tls> ReadTls(const std::string&, const std::string&, const std::string&) { return WhyNot(); }

absl::StatusOr<std::unique_ptr<Link>> Dial(const Endpoint&, const std::string&, const Tls&,
                                           std::chrono::steady_clock::time_point, Link::Events) {
  return WhyNot();
}

}  // namespace twofold::control
