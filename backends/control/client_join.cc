// How a process comes to the control plane.
//
//   seeking   the plane is not up (rank 0 may be late), or its host name does not resolve: retries until the time-out
//   waiting   admitted; waits until all have come
#include <unistd.h>

#include <thread>
#include <utility>

#include "backends/control/client.h"
#include "core/base/duration.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAgain(200);  // between attempts
// For one attempt to connect, without and with other addresses to try.
constexpr std::chrono::seconds kAttempt(10), kShortAttempt(2);

Hello ThisProcess() {
  Hello hello;
  hello.set_version(kVersion);
  hello.set_host(HostName());
  hello.set_machine(MachineId());
  hello.set_process(getpid());
  return hello;
}

}  // namespace

std::string ThisProcessText() { return ProcessText(ThisProcess()); }

absl::StatusOr<std::unique_ptr<Client>> Client::Join(const Options& options, std::unique_ptr<Server> server) {
  std::shared_ptr<Desk> desk = server->desk();
  return Join(options, std::move(desk), std::move(server));
}

absl::StatusOr<std::unique_ptr<Client>> Client::Join(const Options& options, std::shared_ptr<Desk> desk,
                                                     std::unique_ptr<Server> server) {
  std::unique_ptr<Client> client(new Client(options, std::move(server), std::move(desk)));
  absl::Status status = client->desk_ != nullptr ? client->Try(nullptr, Clock::time_point::max()) : client->Seek();
  if (status.ok()) status = client->AwaitSeat();
  if (!status.ok()) return status;
  return client;
}

std::string Client::Me() const {
  return options_.newcomer ? StrCat("a newcomer (", ThisProcessText(), ")")
                           : StrCat("rank ", options_.rank, " (", ThisProcessText(), ")");
}

std::string Client::Place() const {
  return PlaceText(options_.hosts.empty() ? "this process" : options_.hosts.front(), options_.port);
}

Link::Events Client::EventsOf(uint64_t link) {
  return {.heard =
              [this, link](FromHub message) {
                loop_.Post([this, link, message = std::move(message)] {
                  if (link == links_) Hear(message);
                });
              },
          .ended =
              [this, link](absl::Status why) {
                loop_.Post([this, link, why = std::move(why)] {
                  if (link == links_) LinkEnded(why);
                });
              }};
}

// OK: admitted. UNAVAILABLE: not yet. With any other error there is no use in trying again.
absl::Status Client::Try(const Endpoint* endpoint, Time until) {
  const uint64_t link = ++links_;
  loop_.Post([this] { heard_hub_ = clock_.now(); });
  {
    std::lock_guard lock(mutex_);
    replies_.clear();
    link_ended_.reset();
    hub_lost_ = false;
  }
  if (endpoint == nullptr) {
    link_ = ConnectHere(desk_, EventsOf(link));
    return Greet();
  }
  if (!TokenSuffices(options_.token, *endpoint)) {
    return InvalidArgument("fabric.rendezvous: ", Me(), " would look for rank 0's store at ", Place(), WhyNoToken());
  }
  absl::StatusOr<std::unique_ptr<Link>> dialled = Dial(*endpoint, options_.token, options_.tls, until, EventsOf(link));
  if (!dialled.ok()) return dialled.status();
  link_ = *std::move(dialled);
  return Greet();
}

absl::Status Client::Greet() {
  ToHub message;
  Hello& hello = *message.mutable_hello() = ThisProcess();
  hello.set_size(options_.size);
  hello.set_newcomer(options_.newcomer);
  hello.set_rank(options_.rank);
  hello.set_patience_s(std::chrono::duration<double>(deadline_ - Clock::now()).count());
  link_->Send(std::move(message));
  std::unique_lock lock(mutex_);
  if (!Await(lock, deadline_, [this] { return Has(FromHub::kWelcome); }))
    return Unavailable("the store does not answer");
  const Welcome welcome = replies_[FromHub::kWelcome].welcome();
  hub_ = welcome.hub();
  member_ = welcome.member();
  if (welcome.has_member() || Has(FromHub::kEnd)) return absl::OkStatus();
  const absl::Status ended = link_ended_.value_or(Unavailable("rank 0 has ended"));
  const std::string why(ended.message());
  if (absl::IsPermissionDenied(ended))
    return absl::PermissionDeniedError(StrCat("fabric.rendezvous: ", Me(), " is refused: ", why));
  if (absl::IsFailedPrecondition(ended)) return ended;
  return Unavailable(absl::IsUnimplemented(ended) ? "a program that is not a rendezvous store listens there" : why);
}

absl::Status Client::TryHost(const std::string& host) {
  const auto endpoints = Resolve(host, options_.port);
  if (!endpoints.ok()) return Unavailable(std::string(endpoints.status().message()));
  const bool others = endpoints->size() > 1 || options_.hosts.size() > 1;
  absl::Status status;
  for (const Endpoint& endpoint : *endpoints) {
    status = Try(&endpoint, std::min<Time>(deadline_, Clock::now() + (others ? kShortAttempt : kAttempt)));
    if (!absl::IsUnavailable(status)) return status;
  }
  return status;
}

absl::Status Client::Seek() {
  std::string why = "no attempt was made";
  while (Clock::now() < deadline_) {
    why.clear();
    for (const std::string& host : options_.hosts) {
      if (Clock::now() >= deadline_) break;
      const absl::Status status = TryHost(host);
      if (!absl::IsUnavailable(status)) return status;
      if (options_.hosts.size() > 1) StrAppend(&why, why.empty() ? "" : "; ", host, ": ");
      StrAppend(&why, std::string(status.message()));
    }
    std::this_thread::sleep_for(
        std::min<Clock::duration>(kAgain, std::max<Clock::duration>(deadline_ - Clock::now(), {})));
  }
  return absl::DeadlineExceededError(
      StrCat("fabric.rendezvous: ", Me(), " did not find rank 0's store at ", Place(), " within ", options_.timeout_s,
             " s (timeout_s): ", why,
             ". Was rank 0 started on that host with that address? Can this host reach it over TCP?"));
}

absl::Status Client::AwaitSeat() {
  if (options_.newcomer) return absl::OkStatus();
  std::unique_lock lock(mutex_);
  if (!Await(lock, deadline_ + kLastWord, [this] { return Has(FromHub::kSeat); })) {
    return absl::DeadlineExceededError(StrCat("fabric.rendezvous: ", Me(), " heard nothing more from the store at ",
                                              Place(), " (rank 0, ", hub_, ") within ", options_.timeout_s,
                                              " s (timeout_s)"));
  }
  if (!Has(FromHub::kSeat)) return WhyEnded();
  seat_ = replies_[FromHub::kSeat].seat();
  return absl::OkStatus();
}

}  // namespace twofold::control
