// The bootstrap through the store of rank 0.
#include <utility>

#include "backends/bootstrap/kinds.h"
#include "backends/rendezvous/address.h"
#include "backends/rendezvous/meeting.h"
#include "backends/rendezvous/member.h"
#include "backends/rendezvous/store.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

class StoreBootstrap final : public Bootstrap {
 public:
  StoreBootstrap(const Launch& launch, std::string address, std::string place, std::unique_ptr<rendezvous::Store> store,
                 std::unique_ptr<rendezvous::Member> member)
      : rank_(launch.rank),
        size_(launch.size),
        address_(std::move(address)),
        place_(std::move(place)),
        store_(std::move(store)),
        member_(std::move(member)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return member_->local_rank(); }
  int local_size() const override { return member_->local_size(); }
  std::string address() const override { return address_; }
  std::string bind() const override { return store_ == nullptr ? "" : store_->bind(); }
  std::string Describe() const override { return StrCat("the store at ", place_); }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) override {
    return member_->AllGather(std::move(bytes));
  }
  absl::StatusOr<std::string> Broadcast(std::string bytes) override { return member_->Broadcast(std::move(bytes)); }

 private:
  const int rank_, size_;
  const std::string address_, place_;
  std::unique_ptr<rendezvous::Store> store_;    // at rank 0 only
  std::unique_ptr<rendezvous::Member> member_;  // destroyed before the store
};

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
  const auto endpoints = rendezvous::Resolve(place.bind, place.port);
  if (!endpoints.ok() || !endpoints->front().loopback) return absl::OkStatus();  // the store reports the error
  return InvalidArgument("fabric.rendezvous: rank 0 would listen at ", place.bind, ", which is ",
                         endpoints->front().address,
                         " on this host, and ranks on other hosts cannot reach it; set MASTER_ADDR to an address that "
                         "they can reach, or fabric.rendezvous.bind to an address of this host (0.0.0.0 for all)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> MakeStoreBootstrap(const spec::Spec& spec, const Launch& launch) {
  const spec::Rendezvous& told = spec.fabric().rendezvous();
  absl::StatusOr<Place> place = FindPlace(told, launch);
  if (!place.ok()) return place.status();
  std::unique_ptr<rendezvous::Store> store;
  rendezvous::Member::Options member = {.rank = launch.rank,
                                        .size = launch.size,
                                        .host = place->address,
                                        .port = place->port,
                                        .timeout_s = told.timeout_s(),
                                        .token = launch.token};
  const std::string text = rendezvous::PlaceText(place->address, place->port);
  if (launch.rank == 0) {
    if (absl::Status s = CheckReach(*place, launch); !s.ok()) return s;
    auto listening = rendezvous::Store::Listen({.size = launch.size,
                                                .bind = place->bind,
                                                .port = place->port,
                                                .place = text,
                                                .process = rendezvous::ProcessText(rendezvous::ThisProcess()),
                                                .timeout_s = told.timeout_s(),
                                                .token = launch.token});
    if (!listening.ok()) return listening.status();
    store = *std::move(listening);
    member.host = store->address();
  }
  auto joined = rendezvous::Member::Join(member);
  if (!joined.ok()) return joined.status();
  return std::make_unique<StoreBootstrap>(launch, place->address, text, std::move(store), *std::move(joined));
}

}  // namespace twofold
