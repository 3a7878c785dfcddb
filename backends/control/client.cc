#include "backends/control/client.h"

#include <limits>
#include <utility>

#include "core/base/duration.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick(20);
constexpr std::chrono::seconds kSpeakerTime(10), kSpeakerTimeAfterLoss(1);
constexpr double kForever = std::numeric_limits<double>::infinity();

}  // namespace

Client::Client(const Options& options, std::unique_ptr<Server> server, std::shared_ptr<Desk> desk)
    : options_(options),
      deadline_(Clock::now() + DurationOf(options.timeout_s)),
      server_(std::move(server)),
      desk_(std::move(desk)),
      clock_(Clock::now()),
      gave_sign_(clock_.now()),
      heard_hub_(clock_.now()),
      observer_([this](ToHub message) { Send(std::move(message)); }),
      loop_(kTick, [this] { Tick(); }) {}

Client::~Client() {
  loop_.Stop();
  if (link_ != nullptr) link_->Leave();
}

// ---- The run ----

void Client::Begin(int world_size, double timeout_s, host::RunState* run, std::function<void()> on_failure,
                   OnBroken on_broken) {
  const bool elastic = on_broken != nullptr;
  observer_.ForgetLogs();
  int generation = 1;
  {
    std::lock_guard lock(mutex_);
    verdict_.reset();
    replies_.erase(FromHub::kResults);
    torn_.reset();
    if (formed_run_ != 0) {  // this newcomer has been admitted
      run_ = std::exchange(formed_run_, 0);
      generation = generation_;
    } else {
      ++run_;
      generation_ = generation;
      exchange_generation_ = 0;
    }
  }
  if (holds_plane()) {
    ToHub message;
    message.mutable_begin()->set_world_size(world_size);
    message.mutable_begin()->set_timeout_s(timeout_s);
    message.mutable_begin()->set_elastic(elastic);
    Send(std::move(message));
  }
  loop_.Post([=, this, number = run_.load(), on_failure = std::move(on_failure), on_broken = std::move(on_broken)] {
    begun_run_ = number;
    entered_generation_ = generation;
    broken_ = false;
    timeout_s_ = timeout_s;
    on_failure_ = on_failure;
    on_broken_ = on_broken;
    judged_ = false;
    observer_.Begin(run, member_, timeout_s);
    heard_hub_ = clock_.now();
    for (const FromHub& message : std::exchange(early_, {})) Hear(message);
    if (hub_lost_) EndWithoutHub();  // unless it told how this run ends before it left
  });
}

Verdict Client::AwaitVerdict() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return verdict_.has_value(); });
  return *verdict_;
}

void Client::Finish(std::string result) {
  ToHub message;
  message.mutable_finished()->set_result(std::move(result));
  observer_.AddEnds(*message.mutable_finished()->mutable_points());
  Send(std::move(message));
}

void Client::HandIn(std::string partial) {
  if (bereaved_) {  // there is no plane to hand it to
    std::lock_guard lock(mutex_);
    Results& results = *replies_[FromHub::kResults].mutable_results();
    for (int r = 0; r < options_.size; ++r) results.add_results(r == options_.rank ? partial : std::string());
    return;
  }
  ToHub message;
  message.mutable_partial()->set_result(std::move(partial));
  Send(std::move(message));
}

RunResult Client::Conclude() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return verdict_.has_value(); });
  const Verdict verdict = *verdict_;
  if (holds_plane()) {
    changed_.wait(lock, [this] { return Has(FromHub::kResults); });
  } else if (bereaved_ && !speaks()) {
    changed_.wait_for(lock, kSpeakerTimeAfterLoss, [] { return false; });
  } else if (verdict.code() != 0) {
    changed_.wait_for(lock, kSpeakerTime, [this] { return hub_lost_.load(); });
  }
  const Results results = replies_[FromHub::kResults].results();
  return {absl::Status(static_cast<absl::StatusCode>(verdict.code()), verdict.message()),
          std::vector<std::string>(results.results().begin(), results.results().end()),
          {}};
}

void Client::Relay(Relayed relayed) {
  ToHub message;
  *message.mutable_relayed() = std::move(relayed);
  Send(std::move(message));
}

void Client::OnLastStep(std::function<void(const Relayed&)> hear) {
  loop_.Post([this, hear = std::move(hear)] { on_last_step_ = hear; });
}

void Client::OnRelayed(std::function<void(const Relayed&)> hear) {
  loop_.Post([this, hear = std::move(hear)] { on_relayed_ = hear; });
}

void Client::Send(ToHub message) {
  message.set_run(run_);
  message.set_generation(generation_);
  link_->Send(std::move(message));
}

// ---- Generations ----

absl::StatusOr<Generation> Client::Reform(int min_members, double patience_s) {
  const bool admission = options_.newcomer && run_ == 0;
  loop_.Do([this] { observer_.Release(); });
  observer_.ForgetLogs();
  std::unique_lock lock(mutex_);
  replies_.erase(FromHub::kRefused);
  if (!admission) {
    replies_.erase(FromHub::kFormed);
    lock.unlock();
    ToHub message;
    message.mutable_reform()->set_generation(generation_);
    message.mutable_reform()->set_min_members(min_members);
    message.mutable_reform()->set_patience_s(patience_s);
    Send(std::move(message));
    lock.lock();
  }
  const bool in_time = Await(lock, Clock::now() + DurationOf(admission ? patience_s : kForever),
                             [this] { return Has(FromHub::kFormed) || Has(FromHub::kRefused) || verdict_; });
  if (verdict_) return absl::Status(static_cast<absl::StatusCode>(verdict_->code()), verdict_->message());
  if (Has(FromHub::kRefused))
    return FailedPrecondition("fabric.rendezvous: ", replies_[FromHub::kRefused].refused().message());
  if (!in_time)
    return absl::DeadlineExceededError(
        StrCat("fabric.rendezvous: no generation has admitted ", Me(), " within ", patience_s, " s"));
  if (!Has(FromHub::kFormed)) return WhyEnded();
  const Formed formed = replies_.extract(FromHub::kFormed).mapped().formed();
  Generation generation{.number = formed.number(), .members = {formed.members().begin(), formed.members().end()}};
  generation_ = exchange_generation_ = generation.number;
  exchanges_ = 0;
  return generation;
}

void Client::Enter(host::RunState* run) {
  loop_.Post([this, run, generation = generation_.load()] {
    entered_generation_ = generation;
    broken_ = false;
    observer_.Begin(run, member_, timeout_s_);
    for (const FromHub& message : std::exchange(early_, {})) Hear(message);
  });
}

void Client::AwaitBroken() {
  std::unique_lock lock(mutex_);
  Await(lock, Clock::now() + DurationOf(options_.timeout_s),
        [this] { return torn_ == generation_ || verdict_.has_value(); });
}

absl::Status Client::Depart(std::string partial) {
  if (holds_plane())
    return FailedPrecondition("rank 0 cannot leave: its process holds the control plane of all others");
  loop_.Do([this] { observer_.Release(); });
  ToHub message;
  message.mutable_depart()->set_result(std::move(partial));
  Send(std::move(message));
  return absl::OkStatus();
}

void Client::EndRun(std::string why) {
  ToHub message;
  message.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kRunOver));
  message.mutable_trouble()->set_message(std::move(why));
  Send(std::move(message));
}

// ---- On the client's thread ----

void Client::Tick() {
  clock_.Look(Clock::now());
  if (link_ready_ && clock_.now() - gave_sign_ >= DurationOf(options_.least_silence_s / kSignsInSilence)) {
    gave_sign_ = clock_.now();
    link_->Send(ToHub());
  }
  observer_.Look(clock_.now());
  MissTheHub();
}

// The counterpart of Hub::MissTheSilent, by which the plane misses others.
void Client::MissTheHub() {
  const bool in_run = begun_run_ != 0 && !judged_;
  if (desk_ != nullptr || hub_lost_ || !(in_run || waits_)) return;
  const double most_s = in_run ? std::max(options_.least_silence_s, timeout_s_) : options_.least_silence_s;
  if (clock_.now() - heard_hub_ < DurationOf(most_s)) return;
  ++links_;  // if it comes back, it finds that the others have left
  LoseHub(0, StrCat("lost rank 0: its process (", hub_, ") has sent no heartbeat for ", most_s,
                    " s; it is stopped, or its host hangs or is unreachable"));
}

void Client::Hear(const FromHub& message) {
  heard_hub_ = clock_.now();
  if (message.has_waiting()) newcomers_ = message.waiting();
  if (message.what_case() == FromHub::WHAT_NOT_SET) return;
  if (message.run() != 0 && !message.has_formed() && !message.has_results() && !message.has_refused())
    return HearInRun(message);
  if (message.has_welcome()) link_ready_ = true;
  std::lock_guard lock(mutex_);
  if (message.has_formed() && begun_run_ == 0) formed_run_ = message.run();
  const bool given_up = (message.has_taken() && (message.taken().number() != exchanges_ ||
                                                 message.taken().generation() != exchange_generation_)) ||
                        (message.has_value() && message.value().number() != requests_);
  if (!given_up) replies_[message.what_case()] = message;
  changed_.notify_all();
}

void Client::HearInRun(const FromHub& message) {
  const bool generation_is_to_come = on_broken_ != nullptr && !message.has_verdict() && message.run() == begun_run_ &&
                                     message.generation() > entered_generation_;
  if (message.run() > begun_run_ || generation_is_to_come) return early_.push_back(message);
  if (message.run() < begun_run_) return;
  if (message.has_verdict()) return Judge(message.verdict());
  if (on_broken_ != nullptr && message.generation() != entered_generation_) return;
  if (message.has_query()) observer_.Reply();
  if (message.has_broken()) BreakUp(message.broken());
  if (!message.has_relayed()) return;
  const auto& hear = message.relayed().has_last_step() ? on_last_step_ : on_relayed_;
  if (hear) hear(message.relayed());
}

void Client::BreakUp(const Broken& broken) {
  if (std::exchange(broken_, true)) return;
  observer_.End(broken.member(), absl::UnavailableError(broken.message()));
  if (on_broken_) on_broken_(broken);
  std::lock_guard lock(mutex_);
  torn_ = entered_generation_;  // a member that others wait for may be forming the next one already
  changed_.notify_all();
}

void Client::Judge(const Verdict& verdict) {
  if (std::exchange(judged_, true)) return;
  observer_.End(verdict.rank(), absl::Status(static_cast<absl::StatusCode>(verdict.code()), verdict.message()));
  if (verdict.code() != 0 && on_failure_) on_failure_();
  std::lock_guard lock(mutex_);
  verdict_ = verdict;
  changed_.notify_all();
}

void Client::LinkEnded(const absl::Status& why) {
  {
    std::lock_guard lock(mutex_);
    link_ended_ = why;
  }
  const std::string said(why.message());
  if (absl::IsAborted(why)) return LoseHub(member_, said);  // expelled
  const bool cut_off = said.find("timed out") != std::string::npos || said.find("unreachable") != std::string::npos ||
                       said.find("No route") != std::string::npos;
  LoseHub(0, StrCat("lost rank 0: its process (", hub_, ") ",
                    cut_off ? StrCat("is unreachable: its host does not answer (", said, ")") : "has ended"));
}

void Client::LoseHub(int rank, std::string message) {
  how_hub_was_lost_ = VerdictOf(absl::StatusCode::kUnavailable, std::move(message));
  how_hub_was_lost_.set_rank(rank);
  how_hub_was_lost_.set_lost(true);
  {
    std::lock_guard lock(mutex_);
    hub_lost_ = true;
    changed_.notify_all();
  }
  EndWithoutHub();
}

// With the plane lost, nobody can ask the other ranks.
void Client::EndWithoutHub() {
  if (begun_run_ == 0 || judged_) return;
  Verdict verdict = how_hub_was_lost_;
  if (const std::string doing = observer_.Doing(); !doing.empty()) StrAppend(verdict.mutable_message(), "; ", doing);
  bereaved_ = verdict.rank() == 0;
  Judge(verdict);
}

}  // namespace twofold::control
