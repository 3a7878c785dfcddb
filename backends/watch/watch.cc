#include "backends/watch/watch.h"

#include <unistd.h>

#include <asio.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "backends/watch/connect.h"
#include "backends/watch/hub.h"
#include "backends/watch/link.h"
#include "core/base/machine.h"
#include "core/base/strings.h"

namespace twofold::watch {
namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick(20), kProgressEvery(200), kClaimTime(1000);
constexpr std::chrono::seconds kSpeakerTime(10), kSpeakerTimeAfterLoss(1);

std::string MakeToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) StrAppend(&token, absl::StrFormat("%08x", random()));
  return token;
}

// What this process's rank does now, for the others.
control::Call Describe(const host::Call& call, int rank) {
  control::Call out;
  out.set_text(call.ToString());
  out.set_collective(call.split || call.communication.is_collective());
  if (call.identity == nullptr) return out;
  const host::GroupIdentity& group = *call.identity;
  out.set_group(group.id);
  out.set_sequence(call.sequence);
  auto everyone_else = [&] {
    for (int r : group.ranks) {
      if (r != rank) out.add_awaited(r);
    }
  };
  auto peer = [&](int p) {
    if (p != kAnySource) return out.add_awaited(group.ranks[static_cast<size_t>(p)]);
    out.set_any(true);
    everyone_else();
  };
  if (out.collective()) {
    everyone_else();
  } else if (call.communication.kind == Communication::kBatch) {
    for (const P2p& m : call.communication.batch) peer(m.peer);
  } else {
    peer(call.communication.peer);
  }
  return out;
}

}  // namespace

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
  void AddLog(std::shared_ptr<CallLog> log);
  void Relay(control::Relayed message);
  void OnRelayed(std::function<void(const control::Relayed&)> hear);

 private:
  struct Waiting {
    std::shared_ptr<const host::Call> call;
    Clock::time_point since;
  };

  // ---- On the main thread, before there is another ----
  void Listen(const Options& options);
  void Connect(const Options& options);

  // ---- On the watch's thread ----
  void Accept();
  void Greet(const std::shared_ptr<Link>& link);
  void Tick();
  void CloseIfDone();
  void Look();
  void LookForFailure();
  void LookForTimeOut();
  void Report();
  void Tell(control::ToHub message);
  void Hear(const control::FromHub& message);
  void Reply();
  void Judge(const control::Verdict& verdict);
  void LoseHub();
  bool active() const { return run_ != nullptr && !verdict_; }

  const int rank_, processes_;
  const std::string process_;  // "process 4711 on node3"
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  asio::steady_timer timer_{io_};
  std::string token_;
  bool ending_ = false;

  // The hub, at rank 0.
  std::unique_ptr<Hub> hub_;
  std::unique_ptr<tcp::acceptor> acceptor_;
  std::vector<std::shared_ptr<Link>> links_;  // by rank
  int connected_ = 0;
  std::promise<void> all_connected_;

  std::shared_ptr<Link> to_hub_;  // at the others
  std::string hub_process_;
  std::atomic<bool> hub_lost_ = false;
  std::atomic<bool> bereaved_ = false;  // lost before it had told how the run ends

  // The run, touched by the watch's thread alone.
  uint64_t run_number_ = 0;
  host::RunState* run_ = nullptr;
  std::function<void()> on_failure_;
  double timeout_s_ = 0;
  bool accused_ = false;  // this rank has reported its trouble
  Clock::time_point claimed_since_{}, reported_{};
  std::map<const host::Call*, Waiting> waiting_;
  std::string told_doing_;
  std::optional<control::Verdict> verdict_;
  std::vector<control::FromHub> early_;
  std::function<void(const control::Relayed&)> on_relayed_;

  // What other threads wait for or add to.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<control::Verdict> told_verdict_;
  bool closed_ = false;  // the hub has what ranks handed in
  std::vector<std::string> results_;
  std::vector<std::shared_ptr<CallLog>> logs_;

  std::thread thread_;
};

// ---- Connecting ----

Watch::Impl::Impl(const Options& options)
    : rank_(options.rank),
      processes_(options.processes),
      process_(StrCat("process ", getpid(), " on ", HostName())) {
  if (rank_ == 0) Listen(options);
  else Connect(options);
  timer_.expires_after(kTick);
  timer_.async_wait([this](asio::error_code error) { if (!error) Tick(); });
  thread_ = std::thread([this] { io_.run(); });
  if (rank_ != 0) return;
  const auto limit = std::chrono::duration<double>(options.connect_timeout_s);
  if (all_connected_.get_future().wait_for(limit) == std::future_status::ready) return;
  io_.stop();
  thread_.join();
  throw std::runtime_error(StrCat("only ", connected_, " of ", processes_ - 1, " processes reached rank 0 (", process_, ") in ",
                                  options.connect_timeout_s, " s; is TCP between the hosts blocked?"));
}

void Watch::Impl::Listen(const Options& options) {
  hub_ = std::make_unique<Hub>(processes_, [this](int rank, const control::FromHub& message) {
    if (rank == 0) return asio::post(io_, [this, message] { Hear(message); });
    if (links_[static_cast<size_t>(rank)] != nullptr) links_[static_cast<size_t>(rank)]->Send(message);
  });
  hub_->Connected(0, process_);
  links_.resize(static_cast<size_t>(processes_));
  acceptor_ = std::make_unique<tcp::acceptor>(options.one_host ? tcp::acceptor(io_, {asio::ip::address_v4::loopback(), 0}) : ListenEverywhere(io_));
  token_ = MakeToken();
  const std::string name = options.one_host ? "127.0.0.1" : HostName();
  const std::string addresses = options.one_host || options.address.empty() ? name : StrCat(options.address, ",", name);
  std::string card = StrCat(addresses, " ", acceptor_->local_endpoint().port(), " ", token_, " ", process_);
  options.broadcast(card);
  if (processes_ == 1) all_connected_.set_value();
  Accept();
}

void Watch::Impl::Connect(const Options& options) {
  std::string card;
  options.broadcast(card);
  const std::vector<std::string> parts = absl::StrSplit(card, absl::MaxSplits(' ', 3));
  token_ = parts.at(2);
  hub_process_ = parts.at(3);
  try {
    to_hub_ = std::make_shared<Link>(ConnectToAny(absl::StrSplit(parts[0], ','), parts[1], io_));
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(StrCat("rank ", rank_, " (", process_, ") cannot reach rank 0 at port ", parts[1], " of ", e.what()));
  }
  to_hub_->Start(
      [this](const std::string& bytes) {
        control::FromHub message;
        if (message.ParseFromString(bytes)) Hear(message);
      },
      [this] { LoseHub(); });
  control::ToHub hello;
  hello.mutable_hello()->set_rank(rank_);
  hello.mutable_hello()->set_token(token_);
  hello.mutable_hello()->set_process(process_);
  to_hub_->Send(hello);
}

void Watch::Impl::Accept() {
  acceptor_->async_accept([this](asio::error_code error, tcp::socket socket) {
    if (error) return;
    Greet(std::make_shared<Link>(std::move(socket)));
    Accept();
  });
}

// The first message says who it is; whoever does not know the run's token is turned away.
void Watch::Impl::Greet(const std::shared_ptr<Link>& link) {
  auto who = std::make_shared<int>(-1);
  link->Start(
      [this, link, who](const std::string& bytes) {
        control::ToHub message;
        if (!message.ParseFromString(bytes)) return link->Close();
        if (*who >= 0) return hub_->Hear(*who, message, Clock::now());
        const control::Hello& hello = message.hello();
        const bool known = message.has_hello() && hello.token() == token_ && hello.rank() > 0 && hello.rank() < processes_ &&
                           links_[static_cast<size_t>(hello.rank())] == nullptr;
        if (!known) return link->Close();
        *who = hello.rank();
        links_[static_cast<size_t>(*who)] = link;
        hub_->Connected(*who, hello.process());
        if (++connected_ == processes_ - 1) all_connected_.set_value();
      },
      [this, who] {
        if (*who >= 0) hub_->Lose(*who, Clock::now());
      });
}

Watch::Impl::~Impl() {
  asio::post(io_, [this] {
    ending_ = true;
    timer_.cancel();
    if (acceptor_ != nullptr) acceptor_->close();
    for (const auto& link : links_) {
      if (link != nullptr) link->Close();
    }
    if (to_hub_ != nullptr) to_hub_->Close();
    work_.reset();
  });
  thread_.join();
}

// ---- The run ----

void Watch::Impl::Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure) {
  {
    std::lock_guard lock(mutex_);
    told_verdict_.reset();
    closed_ = false;
    results_.clear();
    logs_.clear();
  }
  asio::post(io_, [this, world_size, timeout_s, run, on_failure = std::move(on_failure)]() mutable {
    ++run_number_;
    run_ = run;
    on_failure_ = std::move(on_failure);
    timeout_s_ = timeout_s;
    accused_ = false;
    claimed_since_ = {};
    waiting_.clear();
    told_doing_.clear();
    verdict_.reset();
    if (hub_ != nullptr) hub_->Begin(run_number_, world_size, timeout_s, Clock::now());
    for (const control::FromHub& message : std::exchange(early_, {})) Hear(message);
    if (hub_lost_) LoseHub();  // unless it had told how this run ends before it left
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
  {
    std::lock_guard lock(mutex_);
    for (const auto& log : logs_) *message.mutable_finished()->add_points() = log->LastPoint();
  }
  asio::post(io_, [this, message = std::move(message)]() mutable { Tell(std::move(message)); });
}

void Watch::Impl::HandIn(std::string partial) {
  if (bereaved_) {  // nobody to hand it to
    std::lock_guard lock(mutex_);
    results_.resize(static_cast<size_t>(processes_));
    results_[static_cast<size_t>(rank_)] = std::move(partial);
    return;
  }
  control::ToHub message;
  message.mutable_partial()->set_result(std::move(partial));
  asio::post(io_, [this, message = std::move(message)]() mutable { Tell(std::move(message)); });
}

RunResult Watch::Impl::Conclude() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return told_verdict_.has_value(); });
  const control::Verdict verdict = *told_verdict_;
  if (hub_ != nullptr) {
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
  asio::post(io_, [this, message = std::move(message)]() mutable { Tell(std::move(message)); });
}

void Watch::Impl::OnRelayed(std::function<void(const control::Relayed&)> hear) {
  asio::post(io_, [this, hear = std::move(hear)]() mutable { on_relayed_ = std::move(hear); });
}

void Watch::Impl::AddLog(std::shared_ptr<CallLog> log) {
  std::lock_guard lock(mutex_);
  logs_.push_back(std::move(log));
}

// ---- On the watch's thread ----

void Watch::Impl::Tick() {
  if (ending_) return;  // the timer had gone off before it was cancelled
  if (active()) Look();
  if (hub_ != nullptr) hub_->Tick(Clock::now());
  CloseIfDone();
  timer_.expires_after(kTick);
  timer_.async_wait([this](asio::error_code error) { if (!error) Tick(); });
}

void Watch::Impl::CloseIfDone() {
  if (hub_ == nullptr || !hub_->closed()) return;
  std::lock_guard lock(mutex_);
  if (closed_ || !told_verdict_) return;
  closed_ = true;
  results_ = hub_->TakeResults();
  changed_.notify_all();
}

void Watch::Impl::Look() {
  if (!accused_) LookForFailure();
  if (!accused_) LookForTimeOut();
  if (Clock::now() - reported_ >= kProgressEvery) Report();
}

void Watch::Impl::LookForFailure() {
  if (!run_->ending()) return;
  control::ToHub message;
  if (const auto failure = run_->failure()) {
    // An exception on its way out: what it is will be known in a moment.
    if (claimed_since_ == Clock::time_point()) claimed_since_ = Clock::now();
    if (failure->claimed && Clock::now() - claimed_since_ < kClaimTime) return;
    message.mutable_trouble()->set_kind(static_cast<int>(failure->kind));
    message.mutable_trouble()->set_message(failure->message);
  } else {
    message.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kInterrupted));
    message.mutable_trouble()->set_message(StrCat("rank ", rank_, ": interrupted by a signal"));
  }
  accused_ = true;
  Tell(std::move(message));
}

void Watch::Impl::LookForTimeOut() {
  const auto now = Clock::now();
  std::map<const host::Call*, Waiting> still;
  for (const auto& call : run_->CallsOf(rank_).now) {
    const auto known = waiting_.find(call.get());
    const auto since = known == waiting_.end() ? now : known->second.since;
    still.emplace(call.get(), Waiting{call, since});
    if (accused_ || std::chrono::duration<double>(now - since).count() < timeout_s_) continue;
    accused_ = true;
    control::ToHub message;
    message.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kTimedOut));
    message.mutable_trouble()->set_message(StrCat("rank ", rank_, ": ", call->ToString(), " has taken too long"));
    *message.mutable_trouble()->mutable_waiting() = Describe(*call, rank_);
    Tell(std::move(message));
  }
  waiting_ = std::move(still);  // holds the calls, so that no new one gets the address of an old one
}

void Watch::Impl::Report() {
  reported_ = Clock::now();
  control::ToHub message;
  control::Progress& progress = *message.mutable_progress();
  {
    std::lock_guard lock(mutex_);
    for (const auto& log : logs_) log->TakePoints(*progress.mutable_points());
  }
  const std::string doing = run_->Doing(rank_);
  if (progress.points().empty() && doing == told_doing_) return;
  told_doing_ = doing;
  progress.set_doing(doing);
  Tell(std::move(message));
}

void Watch::Impl::Tell(control::ToHub message) {
  message.set_run(run_number_);
  if (hub_ != nullptr) hub_->Hear(0, message, Clock::now());
  else to_hub_->Send(message);
}

void Watch::Impl::Hear(const control::FromHub& message) {
  if (message.run() > run_number_) return early_.push_back(message);  // the run has yet to begin here
  if (message.run() < run_number_) return;
  if (message.has_query()) Reply();
  if (message.has_verdict()) Judge(message.verdict());
  if (message.has_relayed() && on_relayed_) on_relayed_(message.relayed());
}

void Watch::Impl::Reply() {
  if (run_ == nullptr) return;
  control::ToHub message;
  control::Answer& answer = *message.mutable_answer();
  for (const auto& call : run_->CallsOf(rank_).now) *answer.add_now() = Describe(*call, rank_);
  answer.set_doing(run_->Doing(rank_));
  {
    std::lock_guard lock(mutex_);
    for (const auto& log : logs_) *answer.add_logs() = log->Records();
  }
  Tell(std::move(message));
}

void Watch::Impl::Judge(const control::Verdict& verdict) {
  if (verdict_) return;
  verdict_ = verdict;
  const absl::Status status(static_cast<absl::StatusCode>(verdict.code()), verdict.message());
  if (!status.ok() && run_ != nullptr) run_->Fail(verdict.rank(), FailureKind(status), verdict.message());
  if (!status.ok() && on_failure_) on_failure_();
  run_ = nullptr;
  {
    std::lock_guard lock(mutex_);
    told_verdict_ = verdict;
    changed_.notify_all();
  }
  CloseIfDone();
}

// The process of rank 0 has ended: nobody is left to ask the others.
void Watch::Impl::LoseHub() {
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
  verdict.set_message(StrCat("lost rank 0: its process (", hub_process_, ") has ended"));
  if (run_ != nullptr) StrAppend(verdict.mutable_message(), "; ", run_->Doing(rank_));
  Judge(verdict);
}

// ---- The outside ----

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
void Watch::OnRelayed(std::function<void(const control::Relayed&)> hear) { impl_->OnRelayed(std::move(hear)); }

}  // namespace twofold::watch
