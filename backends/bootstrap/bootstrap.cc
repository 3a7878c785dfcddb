#include "backends/bootstrap/bootstrap.h"

#include <string>
#include <utility>

#include "backends/control/address.h"
#include "backends/processes/meeting.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

struct Place {
  std::string address, bind;
  int port = 0;
};

// The spec's settings override the launcher's.
absl::StatusOr<Place> FindPlace(const spec::Rendezvous& spec, const Launch& launch) {
  Place place = {.address = spec.has_address() ? spec.address() : launch.master_address,
                 .port = spec.has_port() ? spec.port() : launch.master_port};
  place.bind = spec.has_bind() ? spec.bind() : place.address;
  const std::string started = StrCat(launch.size, " ranks (started by ", launch.launcher, ") cannot find each other: ");
  if (place.address.empty()) {
    return InvalidArgument(started,
                           "MASTER_ADDR is not set; set it to the host of rank 0, or set fabric.rendezvous.address");
  }
  if (place.port == 0) {
    return InvalidArgument(
        started,
        "MASTER_PORT is not set; set it to a free port of rank 0's host, such as 29500, or set fabric.rendezvous.port");
  }
  return place;
}

// Refuses an address that other hosts cannot reach: on many hosts the own name resolves to a loopback address.
absl::Status CheckReach(const Place& place, const Launch& launch) {
  const bool several = launch.nodes > 1 || (launch.local_size > 0 && launch.local_size < launch.size);
  if (!several) return absl::OkStatus();
  const auto endpoints = control::Resolve(place.bind, place.port);
  if (!endpoints.ok() || !endpoints->front().loopback) return absl::OkStatus();  // the server reports the error
  return InvalidArgument("fabric.rendezvous: rank 0 would listen at ", place.bind, ", which is ",
                         endpoints->front().address,
                         " on this host, and ranks on other hosts cannot reach it; set MASTER_ADDR to an address that "
                         "they can reach, or fabric.rendezvous.bind to an address of this host (0.0.0.0 for all)");
}

absl::StatusOr<std::unique_ptr<control::Client>> MeetByVariables(const spec::Rendezvous& told, const Launch& launch) {
  const absl::StatusOr<Place> place = FindPlace(told, launch);
  if (!place.ok()) return place.status();
  const absl::StatusOr<control::Tls> tls = processes::TlsOf(told);
  if (!tls.ok()) return tls.status();
  const std::string text = control::PlaceText(place->address, place->port);
  control::Client::Options options = {.rank = launch.rank,
                                      .size = launch.size,
                                      .hosts = {place->address},
                                      .port = place->port,
                                      .timeout_s = told.timeout_s(),
                                      .token = launch.token,
                                      .tls = *tls,
                                      .address = place->address,
                                      .described = StrCat("the store at ", text)};
  options.newcomer = launch.newcomer;
  if (launch.rank != 0 || launch.newcomer) return control::Client::Join(options);
  if (const absl::Status reach = CheckReach(*place, launch); !reach.ok()) return reach;
  auto server = control::Server::Listen({.size = launch.size,
                                         .bind = place->bind,
                                         .port = place->port,
                                         .place = text,
                                         .process = control::ThisProcessText(),
                                         .timeout_s = told.timeout_s(),
                                         .token = launch.token,
                                         .tls = *tls});
  if (!server.ok()) return server.status();
  return control::Client::Join(options, *std::move(server));
}

}  // namespace

absl::StatusOr<std::unique_ptr<control::Client>> Meet(const spec::Spec& spec) {
  const Launch launch = LaunchedAs();
  if (!launch.error.empty()) return InvalidArgument("the environment of this process: ", launch.error);
  if (launch.size == 1 && !launch.newcomer) return processes::Alone();
  if (launch.by_mpi) {
    auto by_mpi = MeetByMpi(spec, launch);
    if (!absl::IsUnimplemented(by_mpi.status())) return by_mpi;
  }
  return MeetByVariables(spec.fabric().rendezvous(), launch);
}

}  // namespace twofold
