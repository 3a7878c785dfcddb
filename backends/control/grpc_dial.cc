#include <grpcpp/grpcpp.h>
#include <grpcpp/security/credentials.h>

#include <climits>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "backends/control/control.grpc.pb.h"
#include "backends/control/grpc_settings.h"
#include "backends/control/link.h"
#include "core/base/status.h"

namespace twofold::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAgainMs = 200;             // between gRPC's attempts to connect
constexpr int kUnacknowledgedMs = 25000;  // then the host at the other end is gone
constexpr std::chrono::milliseconds kLastWords(3000);

class GrpcLink final : public Link, private grpc::ClientBidiReactor<ToHub, FromHub> {
 public:
  GrpcLink(const std::shared_ptr<grpc::Channel>& channel, const std::string& token, Events events)
      : events_(std::move(events)), stub_(Control::NewStub(channel)) {
    context_.AddMetadata(kTokenName, token);
    stub_->async()->Attend(&context_, this);
    AddHold();  // held as long as this side may still write
    StartRead(&incoming_);
    StartCall();
  }
  ~GrpcLink() override {
    {
      std::lock_guard lock(mutex_);
      StopWriting();
    }
    AwaitDone();
  }

  void Send(ToHub message) override {
    std::lock_guard lock(mutex_);
    Queue(std::move(message));
  }
  void Leave() override {
    {
      std::lock_guard lock(mutex_);
      QueueLeave();
    }
    AwaitDone();
  }

 private:
  void AwaitDone() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLastWords, [this] { return done_; })) context_.TryCancel();
    changed_.wait(lock, [this] { return done_; });
  }
  void Queue(ToHub message) {
    if (left_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  void QueueLeave() {
    ToHub message;
    message.mutable_leave();
    Queue(std::move(message));
    StopWriting();
  }
  // Releases the call: it ends when the server has ended it.
  void StopWriting() {
    if (std::exchange(left_, true)) return;
    if (outgoing_.empty()) StartWritesDone();
    RemoveHold();
  }

  void OnReadDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      if (!ok) return StopWriting();
      if (incoming_.has_farewell()) QueueLeave();
    }
    events_.heard(std::move(incoming_));
    incoming_.Clear();
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
    events_.ended(absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()));
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  const Events events_;
  const std::unique_ptr<Control::Stub> stub_;
  grpc::ClientContext context_;
  FromHub incoming_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  std::deque<ToHub> outgoing_;  // the first is being written
  bool left_ = false;           // nothing more will be queued
  bool done_ = false;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Tls& tls) {
  if (!tls.on()) return grpc::InsecureChannelCredentials();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(ProviderOf(tls));
  Identify(options);
  options.set_verify_server_certs(true);
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

std::chrono::system_clock::time_point OnTheWall(Clock::time_point time) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(time - Clock::now());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Link>> Dial(const Endpoint& endpoint, const std::string& token, const Tls& tls,
                                           Clock::time_point deadline, Link::Events events) {
  grpc::ChannelArguments arguments;
  // gRPC's own pings would lose a process that is stopped for a while, and all processes of a job that is suspended.
  // Presence is for the plane to judge. What gRPC is told here it passes to TCP, as the time for acknowledgements.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX - 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kUnacknowledgedMs);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);          // a cluster's proxy to the outside must not be used here
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // one connection a process, also within a test
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  for (const char* backoff :
       {GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS}) {
    arguments.SetInt(backoff, kAgainMs);
  }
  const auto channel = grpc::CreateCustomChannel(endpoint.Target(), CredentialsOf(tls), arguments);
  if (!channel->WaitForConnected(OnTheWall(deadline))) {
    const std::string why = WhyNoAnswer(endpoint);
    return Unavailable(why, tls.on() ? "; fabric.rendezvous.tls must be set for all ranks or for none" : "");
  }
  return std::make_unique<GrpcLink>(channel, token, std::move(events));
}

}  // namespace twofold::control
