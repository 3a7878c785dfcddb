#include "backends/watch/watch.h"

#include <unistd.h>

#include <asio.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "backends/watch/card.h"
#include "backends/watch/connect.h"
#include "backends/watch/hub_server.h"
#include "backends/watch/link.h"
#include "backends/watch/observer.h"
#include "backends/watch/running_clock.h"
#include "core/base/duration.h"
#include "core/base/machine.h"
#include "core/base/open_files.h"
#include "core/base/strings.h"

namespace twofold::watch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick(20);
constexpr std::chrono::seconds kSpeakerTime(10), kSpeakerTimeAfterLoss(1);
constexpr double kSignsInSilence = 5;  // signs of life sent within the allowed silence

// The addresses under which others can reach a hub that listens at `at`.
std::vector<std::string> AddressesOf(const asio::ip::address& at, const Watch::Options& options) {
  if (options.one_host) return {at.is_unspecified() ? "127.0.0.1" : at.to_string()};
  std::vector<std::string> addresses = {at.is_unspecified() ? HostName() : at.to_string()};
  if (!options.address.empty() && options.address != addresses[0]) addresses.insert(addresses.begin(), options.address);
  return addresses;
}

}  // namespace

// Rank 0 has a HubServer, the others have a link to it. The hub's messages and the run are handled in the same way
// everywhere.
class Watch::Impl {
 public:
  explicit Impl(const Options& options);
  ~Impl();

  void Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure);
  control::Verdict AwaitVerdict();
  void HandIn(std::string partial);
  RunResult Conclude();
  bool speaks() const { return rank_ == 0 || (rank_ == 1 && bereaved_.load()); }
  void Finish(std::string result);
  void AddLog(std::shared_ptr<CallLog> log) { observer_.AddLog(std::move(log)); }
  void Relay(control::Relayed message);
  void OnLastStep(std::function<void(const control::Relayed&)> hear);
  void OnRelayed(std::function<void(const control::Relayed&)> hear);

 private:
  // ---- On the main thread, before other threads exist ----
  void Listen(const Options& options);
  void Connect(const Options& options);

  // ---- On any thread ----
  void Post(control::ToHub message);

  // ---- On the watch's thread ----
  void Tick();
  void TickLater();
  void GiveSignOfLife();
  void MissTheHub();
  void CloseIfDone();
  void Tell(control::ToHub message);
  void Hear(const control::FromHub& message);
  void Judge(const control::Verdict& verdict);
  void LoseHub(const std::string& how);

  const int rank_, processes_;
  const double least_silence_s_;
  const std::string process_;  // "process 4711 on node3"
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  asio::steady_timer timer_{io_};
  RunningClock clock_{Clock::now()};
  RunningClock::Time gave_sign_ = clock_.now();
  bool ending_ = false;

  std::unique_ptr<HubServer> server_;  // at rank 0
  std::shared_ptr<Link> to_hub_;       // at the other ranks
  std::string hub_process_, how_hub_was_lost_;
  RunningClock::Time heard_hub_ = clock_.now();
  std::atomic<bool> hub_lost_ = false;
  std::atomic<bool> bereaved_ = false;  // the hub was lost before it told how the run ends

  // The run; used by the watch's thread only.
  uint64_t run_number_ = 0;
  double timeout_s_ = 0;
  std::function<void()> on_failure_;
  std::optional<control::Verdict> verdict_;
  std::vector<control::FromHub> early_;
  std::function<void(const control::Relayed&)> on_last_step_, on_relayed_;
  Observer observer_;

  // State that other threads wait for.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<control::Verdict> told_verdict_;
  bool closed_ = false;  // the hub has the ranks' results
  std::vector<std::string> results_;

  std::thread thread_;
};

// ---- Connecting ----

Watch::Impl::Impl(const Options& options)
    : rank_(options.rank),
      processes_(options.processes),
      least_silence_s_(options.least_silence_s),
      process_(StrCat("process ", getpid(), " on ", HostName())),
      observer_(rank_, [this](control::ToHub message) { Tell(std::move(message)); }) {
  if (rank_ == 0)
    Listen(options);
  else
    Connect(options);
  TickLater();
  thread_ = std::thread([this] { io_.run(); });
  if (rank_ != 0 || server_->AwaitAll(options.connect_timeout_s)) return;
  io_.stop();
  thread_.join();
  server_->Close();
  throw std::runtime_error(StrCat("only ", server_->have_come(), " of ", processes_ - 1, " processes reached rank 0 (",
                                  process_, ") in ", options.connect_timeout_s, " s; ",
                                  server_->why_deaf().empty()
                                      ? "is TCP between the hosts blocked?"
                                      : StrCat("rank 0 could accept no more connections: ", server_->why_deaf())));
}

void Watch::Impl::Listen(const Options& options) {
  constexpr int kOtherFiles = 32;  // files that libraries open meanwhile
  if (processes_ > 1) {
    const absl::Status allowed =
        AllowOpenFiles(processes_ - 1 + HubServer::kMostStrangers + kOtherFiles, StrCat("rank 0 (", process_, ")"),
                       StrCat("a run of ", processes_, " processes"));
    if (!allowed.ok()) throw std::runtime_error(std::string(allowed.message()));
  }
  const std::string token = MakeToken();
  asio::ip::tcp::acceptor acceptor = [&] {
    try {
      return ListenAt(options.bind.empty() && options.one_host ? "127.0.0.1" : options.bind, io_);
    } catch (const std::exception& e) {
      throw std::runtime_error(StrCat("rank 0 (", process_, ") ", e.what()));
    }
  }();
  const auto at = acceptor.local_endpoint();
  std::string card = ToText({.addresses = AddressesOf(at.address(), options),
                             .port = StrCat(at.port()),
                             .token = token,
                             .process = process_});
  server_ = std::make_unique<HubServer>(
      HubServer::Options{
          .processes = processes_, .least_silence_s = least_silence_s_, .process = process_, .token = token},
      std::move(acceptor), clock_, [this](const control::FromHub& message) { Hear(message); });
  options.broadcast(card);
}

void Watch::Impl::Connect(const Options& options) {
  std::string text;
  options.broadcast(text);
  const Card card = CardFrom(text);
  hub_process_ = card.process;
  try {
    to_hub_ = std::make_shared<Link>(ConnectToAny(card.addresses, card.port, io_));
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(StrCat("rank ", rank_, " (", process_, ") cannot reach rank 0 (", card.process,
                                    ") at port ", card.port, " of ", e.what()));
  }
  to_hub_->Trust();
  to_hub_->Start(
      [this](const std::string& bytes) {
        control::FromHub message;
        if (message.ParseFromString(bytes)) Hear(message);
      },
      [this](asio::error_code why) { LoseHub(StrCat("its process (", hub_process_, ") ", HowLost(why))); });
  control::ToHub hello;
  hello.mutable_hello()->set_rank(rank_);
  hello.mutable_hello()->set_token(card.token);
  hello.mutable_hello()->set_process(process_);
  to_hub_->Send(hello);
}

Watch::Impl::~Impl() {
  asio::post(io_, [this] {
    ending_ = true;
    timer_.cancel();
    if (server_ != nullptr) server_->Close();
    if (to_hub_ != nullptr) to_hub_->Close();
    work_.reset();
  });
  thread_.join();
}

// ---- The run ----

void Watch::Impl::Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure) {
  observer_.ForgetLogs();
  {
    std::lock_guard lock(mutex_);
    told_verdict_.reset();
    closed_ = false;
    results_.clear();
  }
  asio::post(io_, [this, world_size, timeout_s, run, on_failure = std::move(on_failure)]() mutable {
    ++run_number_;
    timeout_s_ = timeout_s;
    on_failure_ = std::move(on_failure);
    verdict_.reset();
    observer_.Begin(run, timeout_s);
    heard_hub_ = clock_.now();
    if (server_ != nullptr) server_->hub().Begin(run_number_, world_size, timeout_s, clock_.now());
    for (const control::FromHub& message : std::exchange(early_, {})) Hear(message);
    if (hub_lost_) LoseHub(how_hub_was_lost_);  // unless it told how this run ends before it left
  });
}

control::Verdict Watch::Impl::AwaitVerdict() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return told_verdict_.has_value(); });
  return *told_verdict_;
}

void Watch::Impl::Finish(std::string result) {
  control::ToHub message;
  message.mutable_finished()->set_result(std::move(result));
  observer_.AddEnds(*message.mutable_finished()->mutable_points());
  Post(std::move(message));
}

void Watch::Impl::HandIn(std::string partial) {
  if (bereaved_) {  // there is no hub to hand it to
    std::lock_guard lock(mutex_);
    results_.resize(static_cast<size_t>(processes_));
    results_[static_cast<size_t>(rank_)] = std::move(partial);
    return;
  }
  control::ToHub message;
  message.mutable_partial()->set_result(std::move(partial));
  Post(std::move(message));
}

RunResult Watch::Impl::Conclude() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return told_verdict_.has_value(); });
  const control::Verdict verdict = *told_verdict_;
  if (server_ != nullptr) {
    changed_.wait(lock, [this] { return closed_; });
  } else if (bereaved_ && !speaks()) {
    changed_.wait_for(lock, kSpeakerTimeAfterLoss, [] { return false; });
  } else if (verdict.code() != 0) {
    changed_.wait_for(lock, kSpeakerTime, [this] { return hub_lost_.load(); });
  }
  return {absl::Status(static_cast<absl::StatusCode>(verdict.code()), verdict.message()), std::move(results_), {}};
}

void Watch::Impl::Relay(control::Relayed relayed) {
  control::ToHub message;
  *message.mutable_relayed() = std::move(relayed);
  Post(std::move(message));
}

void Watch::Impl::OnLastStep(std::function<void(const control::Relayed&)> hear) {
  asio::post(io_, [this, hear = std::move(hear)]() mutable { on_last_step_ = std::move(hear); });
}

void Watch::Impl::OnRelayed(std::function<void(const control::Relayed&)> hear) {
  asio::post(io_, [this, hear = std::move(hear)]() mutable { on_relayed_ = std::move(hear); });
}

void Watch::Impl::Post(control::ToHub message) {
  asio::post(io_, [this, message = std::move(message)]() mutable { Tell(std::move(message)); });
}

// ---- On the watch's thread ----

void Watch::Impl::TickLater() {
  timer_.expires_after(kTick);
  timer_.async_wait([this](asio::error_code error) {
    if (!error) Tick();
  });
}

void Watch::Impl::Tick() {
  if (ending_) return;  // the timer had fired before it was cancelled
  clock_.Look(Clock::now());
  GiveSignOfLife();
  observer_.Look(clock_.now());
  if (server_ != nullptr)
    server_->hub().Tick(clock_.now());
  else
    MissTheHub();
  CloseIfDone();
  TickLater();
}

void Watch::Impl::GiveSignOfLife() {
  if (clock_.now() - gave_sign_ < DurationOf(least_silence_s_ / kSignsInSilence)) return;
  gave_sign_ = clock_.now();
  if (server_ != nullptr)
    server_->GiveSignsOfLife();
  else
    to_hub_->Send(control::ToHub());
}

// The counterpart of Hub::MissTheSilent, by which the hub misses other ranks.
void Watch::Impl::MissTheHub() {
  if (run_number_ == 0 || verdict_ || hub_lost_) return;
  const double most_s = std::max(least_silence_s_, timeout_s_);
  if (clock_.now() - heard_hub_ < DurationOf(most_s)) return;
  to_hub_->Close();  // if it comes back, it finds that the others have left
  LoseHub(StrCat("its process (", hub_process_, ") has sent no heartbeat for ", most_s,
                 " s; it is stopped, or its host hangs or is unreachable"));
}

void Watch::Impl::CloseIfDone() {
  if (server_ == nullptr || !server_->hub().closed()) return;
  std::lock_guard lock(mutex_);
  if (closed_ || !told_verdict_) return;
  closed_ = true;
  results_ = server_->hub().TakeResults();
  changed_.notify_all();
}

void Watch::Impl::Tell(control::ToHub message) {
  message.set_run(run_number_);
  if (server_ != nullptr)
    server_->hub().Hear(0, message, clock_.now());
  else
    to_hub_->Send(message);
}

void Watch::Impl::Hear(const control::FromHub& message) {
  heard_hub_ = clock_.now();
  if (message.run() > run_number_) return early_.push_back(message);  // the run has yet to begin here
  if (message.run() < run_number_) return;
  if (message.has_query()) observer_.Reply();
  if (message.has_verdict()) Judge(message.verdict());
  if (!message.has_relayed()) return;
  const auto& hear = message.relayed().has_last_step() ? on_last_step_ : on_relayed_;
  if (hear) hear(message.relayed());
}

void Watch::Impl::Judge(const control::Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  observer_.End(verdict);
  if (verdict.code() != 0 && on_failure_) on_failure_();
  {
    std::lock_guard lock(mutex_);
    told_verdict_ = verdict;
    changed_.notify_all();
  }
  CloseIfDone();
}

// With the hub lost, nobody can ask the other ranks.
void Watch::Impl::LoseHub(const std::string& how) {
  how_hub_was_lost_ = how;
  {
    std::lock_guard lock(mutex_);
    hub_lost_ = true;
    changed_.notify_all();
  }
  if (verdict_ || run_number_ == 0) return;
  bereaved_ = true;
  control::Verdict verdict;
  verdict.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  verdict.set_rank(0);
  verdict.set_lost(true);
  verdict.set_message(StrCat("lost rank 0: ", how));
  if (const std::string doing = observer_.Doing(); !doing.empty()) StrAppend(verdict.mutable_message(), "; ", doing);
  Judge(verdict);
}

// ---- The public interface ----

Watch::Watch(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
Watch::~Watch() = default;
void Watch::Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure) {
  impl_->Begin(world_size, timeout_s, run, std::move(on_failure));
}
control::Verdict Watch::AwaitVerdict() { return impl_->AwaitVerdict(); }
void Watch::HandIn(std::string partial) { impl_->HandIn(std::move(partial)); }
RunResult Watch::Conclude() { return impl_->Conclude(); }
bool Watch::speaks() const { return impl_->speaks(); }
void Watch::Finish(std::string result) { impl_->Finish(std::move(result)); }
void Watch::AddLog(std::shared_ptr<CallLog> log) { impl_->AddLog(std::move(log)); }
void Watch::Relay(control::Relayed message) { impl_->Relay(std::move(message)); }
void Watch::OnLastStep(std::function<void(const control::Relayed&)> hear) { impl_->OnLastStep(std::move(hear)); }
void Watch::OnRelayed(std::function<void(const control::Relayed&)> hear) { impl_->OnRelayed(std::move(hear)); }

}  // namespace twofold::watch
