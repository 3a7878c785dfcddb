#include "backends/gloo/session.h"

#include <gloo/common/logging.h>
#include <gloo/config.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>

#include "backends/control/address.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::gloo {
namespace {

std::mutex g_mutex;
std::weak_ptr<host::RankState> g_rank;  // whose run is in progress
std::terminate_handler g_before = nullptr;

// How long a failed run has to end its process. It cannot if it needs the lock of a pair that Gloo's thread holds.
constexpr unsigned kSecondsToEnd = 60;

// Gloo's thread throws if a message is longer than what was asked for, or if a connection breaks while it is made, and
// nobody catches it. Then that thread stays here, the run fails, and the process ends as after any failure, or here if
// that takes too long. If the run (in an elastic run: the generation) is ending anyway, nobody would look at a failure,
// and without that thread nothing can go on: the process ends here.
[[noreturn]] void OnTerminate() {
  try {
    if (std::current_exception() != nullptr) std::rethrow_exception(std::current_exception());
  } catch (const ::gloo::EnforceNotMet& e) {
    std::unique_lock lock(g_mutex);
    const std::shared_ptr<host::RankState> rank = g_rank.lock();
    if (rank != nullptr && !rank->run.ending()) {
      rank->run.Fail(
          rank->rank, RankFailure::Kind::kCollectiveMismatch,
          StrCat("rank ", rank->rank,
                 ": Gloo: more data arrived than expected, or a connection broke while it was made (", e.what(), ")"));
      lock.unlock();
      for (unsigned left = kSecondsToEnd; left > 0;) left = sleep(left);  // signals end it early
    }
  } catch (...) {
  }
  if (g_before != nullptr) g_before();
  std::abort();
}

}  // namespace

void Session::Began(const std::weak_ptr<host::RankState>& rank) {
  const std::lock_guard lock(g_mutex);
  g_rank = rank;
  if (g_before == nullptr) g_before = std::set_terminate(OnTerminate);
}

absl::StatusOr<Session*> Session::Get(const spec::Spec& spec) {
  static Session* session = nullptr;
  static absl::Status status;
  if (session == nullptr) {
    session = new Session();  // never destroyed: Finish ends it
    status = session->Start(spec);
  }
  if (!status.ok()) return status;
  return session;
}

namespace {

// Whether only processes of this host can have told this address. A newcomer does not know where the others are.
bool IsHere(const std::string& host) {
  const auto endpoints = control::Resolve(host, 1);
  return endpoints.ok() && endpoints->front().loopback;
}

}  // namespace

absl::Status Session::Start(const spec::Spec& spec) try {
  if (absl::Status met = Meet(spec, "fabric.gloo"); !met.ok()) return met;
  transport_ = MakeTransport(one_host() || (control().options().newcomer && IsHere(control().options().address)),
                             control().options().address);
  const std::string transport = transport_->str();  // "tcp, pci=, iface=lo, speed=-1, addr=[127.0.0.1]"
  notes_ = {StrCat("Gloo ", GLOO_VERSION_MAJOR, ".", GLOO_VERSION_MINOR, ".", GLOO_VERSION_PATCH, " over TCP; ",
                   transport.substr(transport.rfind("addr=") + 5),
                   " at rank 0; rendezvous: ", control().options().described)};
  std::atexit([] { Finish(); });
  return absl::OkStatus();
} catch (const std::exception& e) {
  GiveUp();
  return FailedPrecondition("fabric.gloo: ", e.what());
}

absl::StatusOr<ContextPtr> Session::World(int ranks) try {
  ended_->Close();  // the run before has ended everywhere
  const Exchange exchange = Exchanges();
  if (rank() >= ranks) {
    exchange("");
    return ContextPtr();
  }
  return Connect(rank(), ranks, exchange, transport_, abortion(), control().options().timeout_s);
} catch (const std::exception& e) {
  return Unavailable("fabric.gloo: ", e.what());
}

Exchange Session::Exchanges() {
  return [this](std::string bytes) {
    absl::StatusOr<std::vector<std::string>> all = control().AllGather(std::move(bytes));
    if (!all.ok()) throw std::runtime_error(std::string(all.status().message()));
    return *std::move(all);
  };
}

void Session::Disconnect() { abortion()->Abort(); }

std::shared_ptr<Abortion> Session::abortion() const {
  const std::lock_guard lock(mutex_);
  return abortion_;
}

// What the old generation's members have sent concerns nobody any more.
ContextPtr Session::NewWorld(int rank, int size, double timeout_s) {
  ended_->Close();
  {
    const std::lock_guard lock(mutex_);
    abortion_ = std::make_shared<Abortion>();
  }
  return Connect(rank, size, Exchanges(), transport_, abortion(), timeout_s);
}

void Session::Finish() {
  const absl::StatusOr<Session*> session = Get({});
  if (!session.ok() || (*session)->given_up()) return;
  (*session)->Part();
}

}  // namespace twofold::gloo
