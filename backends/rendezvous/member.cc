#include "backends/rendezvous/member.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "backends/rendezvous/address.h"
#include "backends/rendezvous/channel.h"
#include "backends/rendezvous/meeting.h"
#include "backends/rendezvous/rendezvous.grpc.pb.h"
#include "core/base/duration.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr std::chrono::milliseconds kAgain(200);  // between attempts
// For one attempt to connect, without and with other addresses to try.
constexpr std::chrono::seconds kAttempt(10), kShortAttempt(2);
// Extra time after a time-out, for the store to say who is missing.
constexpr std::chrono::milliseconds kStoresWord(3000);

Time After(double seconds) { return Clock::now() + DurationOf(seconds); }
double SecondsUntil(Time time) { return std::chrono::duration<double>(time - Clock::now()).count(); }
std::chrono::system_clock::time_point OnTheWall(Time time) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(time - Clock::now());
}

// The call to the store. gRPC's threads report what arrives; the owner waits for it.
class ClientCall final : public grpc::ClientBidiReactor<FromMember, FromStore> {
 public:
  ClientCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& token)
      : stub_(Rendezvous::NewStub(channel)) {
    context_.AddMetadata(kTokenName, token);
    stub_->async()->Join(&context_, this);
    AddHold();  // held as long as this side may still write
    StartRead(&incoming_);
    StartCall();
  }
  ~ClientCall() override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kStoresWord, [this] { return done_.has_value(); })) context_.TryCancel();
    changed_.wait(lock, [this] { return done_.has_value(); });
  }

  void Send(FromMember message) {
    std::lock_guard lock(mutex_);
    Queue(std::move(message));
  }
  void Leave() {
    std::lock_guard lock(mutex_);
    LeaveLocked();
  }

  // Each waits for its event, or until the store has ended the meeting, or the call has ended; false: none of these by
  // `deadline`.
  bool AwaitWelcome(Time deadline) {
    return Await(deadline, [this] { return store_.has_value(); });
  }
  bool AwaitSeat(Time deadline) {
    return Await(deadline, [this] { return seat_.has_value(); });
  }
  bool AwaitTaken(uint64_t number, Time deadline) {
    return Await(deadline, [this, number] { return taken_ && taken_->number() == number; });
  }

  // What arrived, and why nothing more will. Call after the matching wait: only the owner reads them then.
  std::optional<std::string> store() { return Get(store_); }
  std::optional<rendezvous::Seat> seat() { return Get(seat_); }
  std::optional<Taken> taken(uint64_t number) {
    std::lock_guard lock(mutex_);
    if (!taken_ || taken_->number() != number) return std::nullopt;
    return std::exchange(taken_, std::nullopt);
  }
  std::optional<End> end() { return Get(end_); }
  std::optional<grpc::Status> status() { return Get(done_); }
  bool farewell() { return Get(farewell_).value_or(false); }

 private:
  template <class Condition>
  bool Await(Time deadline, const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, deadline, [&] { return condition() || end_ || done_; });
  }
  template <class T>
  std::optional<T> Get(const std::optional<T>& value) {
    std::lock_guard lock(mutex_);
    return value;
  }

  void Queue(FromMember message) {
    if (left_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  void LeaveLocked() {
    FromMember message;
    message.mutable_leave();
    Queue(std::move(message));
    StopWriting();
  }
  // Releases the call: it ends when the store has ended it.
  void StopWriting() {
    if (std::exchange(left_, true)) return;
    if (outgoing_.empty()) StartWritesDone();
    RemoveHold();
  }

  void OnReadDone(bool ok) override {
    std::lock_guard lock(mutex_);
    if (!ok) return StopWriting();
    if (incoming_.has_welcome()) store_ = incoming_.welcome().store();
    if (incoming_.has_seat()) seat_ = incoming_.seat();
    if (incoming_.has_taken()) taken_ = incoming_.taken();
    if (incoming_.has_end()) end_ = incoming_.end();
    if (incoming_.has_farewell()) farewell_ = true;
    if (incoming_.has_end() || incoming_.has_farewell()) LeaveLocked();
    changed_.notify_all();
    StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();
    if (!outgoing_.empty())
      StartWrite(&outgoing_.front());
    else if (left_)
      StartWritesDone();
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(mutex_);
    done_ = status;
    changed_.notify_all();
  }

  const std::unique_ptr<Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  FromStore incoming_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<FromMember> outgoing_;  // the first is being written
  bool left_ = false;                // nothing more will be queued
  std::optional<std::string> store_;
  std::optional<rendezvous::Seat> seat_;
  std::optional<Taken> taken_;
  std::optional<End> end_;
  std::optional<bool> farewell_;
  std::optional<grpc::Status> done_;
};

class GrpcMember final : public Member {
 public:
  explicit GrpcMember(const Options& options) : options_(options), deadline_(After(options.timeout_s)) {}
  ~GrpcMember() override {
    if (call_ != nullptr) call_->Leave();
  }

  absl::Status Seek();
  absl::Status WaitForAll();

  int local_rank() const override { return seat_.local_rank(); }
  int local_size() const override { return seat_.local_size(); }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) override {
    absl::StatusOr<Taken> taken = Exchange(std::move(bytes), false);
    if (!taken.ok()) return taken.status();
    return std::vector<std::string>(std::make_move_iterator(taken->mutable_bytes()->begin()),
                                    std::make_move_iterator(taken->mutable_bytes()->end()));
  }
  absl::StatusOr<std::string> Broadcast(std::string bytes) override {
    absl::StatusOr<Taken> taken = Exchange(options_.rank == 0 ? std::move(bytes) : std::string(), true);
    if (!taken.ok()) return taken.status();
    return std::move(*taken->mutable_bytes(0));
  }

 private:
  absl::Status Try(const Endpoint& endpoint, std::chrono::seconds attempt);
  absl::StatusOr<Taken> Exchange(std::string bytes, bool broadcast);
  absl::Status Ended();
  std::string Me() const {
    Hello me = ThisProcess();
    return StrCat("rank ", options_.rank, " (", ProcessText(me), ")");
  }
  std::string Place() const { return PlaceText(options_.host, options_.port); }

  const Options options_;
  const Time deadline_;
  std::unique_ptr<ClientCall> call_;
  std::string store_;  // the process that runs the store
  rendezvous::Seat seat_;
  uint64_t exchanges_ = 0;
};

// ---- Seeking ----

// OK: admitted. UNAVAILABLE: not yet. With any other error there is no use in trying again.
absl::Status GrpcMember::Try(const Endpoint& endpoint, std::chrono::seconds attempt) {
  if (!TokenSuffices(options_.token, endpoint)) {
    return InvalidArgument("fabric.rendezvous: ", Me(), " would look for rank 0's store at ", Place(), WhyNoToken());
  }
  grpc::ChannelArguments arguments;
  for (const auto& [name, value] : KeepAlive()) arguments.SetInt(name, value);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // a cluster's proxy to the outside must not be used here
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  for (const char* backoff :
       {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    arguments.SetInt(backoff, static_cast<int>(kAgain.count()));
  }
  const auto channel = grpc::CreateCustomChannel(endpoint.Target(), grpc::InsecureChannelCredentials(), arguments);
  if (!channel->WaitForConnected(OnTheWall(std::min(deadline_, Clock::now() + attempt))))
    return Unavailable(WhyNoAnswer(endpoint));
  call_ = std::make_unique<ClientCall>(channel, options_.token);
  FromMember message;
  *message.mutable_hello() = ThisProcess();
  message.mutable_hello()->set_rank(options_.rank);
  message.mutable_hello()->set_size(options_.size);
  message.mutable_hello()->set_patience_s(SecondsUntil(deadline_));
  call_->Send(std::move(message));
  if (!call_->AwaitWelcome(deadline_)) {
    call_->Leave();
    return Unavailable("the store does not answer");
  }
  if (call_->store() || call_->end()) return store_ = call_->store().value_or(""), absl::OkStatus();
  const grpc::Status status = *call_->status();
  call_.reset();
  const std::string why = status.error_message();
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return absl::PermissionDeniedError(StrCat("fabric.rendezvous: ", Me(), " is refused: ", why));
  }
  if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION) return FailedPrecondition(why);
  return Unavailable(status.error_code() == grpc::StatusCode::UNIMPLEMENTED
                         ? "a program that is not a rendezvous store listens there"
                         : why);
}

absl::Status GrpcMember::Seek() {
  std::string why = "no attempt was made";
  while (Clock::now() < deadline_) {
    const auto endpoints = Resolve(options_.host, options_.port);
    if (!endpoints.ok()) why = std::string(endpoints.status().message());
    for (size_t i = 0; endpoints.ok() && i < endpoints->size() && Clock::now() < deadline_; ++i) {
      const absl::Status status = Try((*endpoints)[i], endpoints->size() > 1 ? kShortAttempt : kAttempt);
      if (!absl::IsUnavailable(status)) return status;
      why = std::string(status.message());
    }
    std::this_thread::sleep_for(
        std::min<Clock::duration>(kAgain, std::max<Clock::duration>(deadline_ - Clock::now(), {})));
  }
  return absl::DeadlineExceededError(
      StrCat("fabric.rendezvous: ", Me(), " did not find rank 0's store at ", Place(), " within ", options_.timeout_s,
             " s (timeout_s): ", why,
             ". Was rank 0 started on that host with that address? Can this host reach it over TCP?"));
}

absl::Status GrpcMember::WaitForAll() {
  if (!call_->AwaitSeat(deadline_ + kStoresWord)) {
    return absl::DeadlineExceededError(StrCat("fabric.rendezvous: ", Me(), " heard nothing more from the store at ",
                                              Place(), " (rank 0, ", store_, ") within ", options_.timeout_s,
                                              " s (timeout_s)"));
  }
  if (!call_->seat()) return Ended();
  seat_ = *call_->seat();
  return absl::OkStatus();
}

// ---- Exchanging ----

absl::StatusOr<Taken> GrpcMember::Exchange(std::string bytes, bool broadcast) {
  FromMember message;
  message.mutable_give()->set_number(++exchanges_);
  message.mutable_give()->set_broadcast(broadcast);
  message.mutable_give()->set_bytes(std::move(bytes));
  call_->Send(std::move(message));
  const bool in_time = call_->AwaitTaken(exchanges_, After(options_.timeout_s) + kStoresWord);
  if (std::optional<Taken> taken = call_->taken(exchanges_)) return *std::move(taken);
  if (in_time) return Ended();
  return absl::DeadlineExceededError(StrCat("fabric.rendezvous: ", Me(), " heard nothing from the store at ", Place(),
                                            " (rank 0, ", store_, ") in exchange ", exchanges_,
                                            " of the bootstrap within ", options_.timeout_s, " s (timeout_s)"));
}

// Why nothing more will come.
absl::Status GrpcMember::Ended() {
  if (const std::optional<End> end = call_->end())
    return absl::Status(static_cast<absl::StatusCode>(end->code()), end->message());
  if (call_->farewell()) {
    return Unavailable("fabric.rendezvous: rank 0 (", store_, ") has closed the store while ", Me(),
                       " still needed it");
  }
  return Unavailable("fabric.rendezvous: lost rank 0 (", store_, "), which served the store at ", Place(),
                     ": it has ended or is stopped, or its host is unreachable; its own output may say why");
}

}  // namespace

Hello ThisProcess() {
  Hello hello;
  hello.set_version(kVersion);
  hello.set_host(HostName());
  hello.set_machine(MachineId());
  hello.set_process(getpid());
  return hello;
}

absl::StatusOr<std::unique_ptr<Member>> Member::Join(const Options& options) {
  auto member = std::make_unique<GrpcMember>(options);
  if (absl::Status s = member->Seek(); !s.ok()) return s;
  if (absl::Status s = member->WaitForAll(); !s.ok()) return s;
  return member;
}

}  // namespace twofold::rendezvous
