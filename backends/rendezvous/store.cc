#include "backends/rendezvous/store.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "backends/rendezvous/address.h"
#include "backends/rendezvous/channel.h"
#include "backends/rendezvous/meeting.h"
#include "backends/rendezvous/rendezvous.grpc.pb.h"
#include "core/base/open_files.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
using Reactor = grpc::ServerBidiReactor<FromMember, FromStore>;

constexpr std::chrono::milliseconds kTick(50);
constexpr std::chrono::seconds kFarewellTime(5);
constexpr int64_t kOtherFiles = 256;  // files besides the connections
constexpr int kHandshakeMs = 10000;   // a connection that sends nothing for so long is closed

class GrpcStore;

// One process's call. All functions except `Refused` need the store's mutex.
class ServerCall final : public Reactor {
 public:
  ServerCall(GrpcStore& store, Meeting::Connection id) : store_(store), id_(id) {}

  void Start() { StartRead(&incoming_); }
  void Queue(const FromStore& message) {
    if (finishing_) return;
    outgoing_.push_back(message);
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  // Ends the call once everything queued has been written.
  void Close(grpc::Status status) {
    if (finishing_) return;
    finishing_ = true;
    status_ = std::move(status);
    if (outgoing_.empty()) Finish(status_);
  }

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  GrpcStore& store_;
  const Meeting::Connection id_;
  FromMember incoming_;
  std::deque<FromStore> outgoing_;  // the first is being written
  bool finishing_ = false;
  grpc::Status status_;
};

class Stranger final : public Reactor {
 public:
  explicit Stranger(const std::string& why) { Finish(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why)); }
  void OnDone() override { delete this; }
};

class GrpcStore final : public Store, public Rendezvous::CallbackService {
 public:
  GrpcStore(const Options& options, Endpoint endpoint)
      : options_(options),
        endpoint_(std::move(endpoint)),
        meeting_(
            {.size = options.size, .timeout_s = options.timeout_s, .place = options.place, .process = options.process},
            [this](Meeting::Connection to, const FromStore& message) {
              if (const auto call = calls_.find(to); call != calls_.end()) call->second->Queue(message);
            },
            Clock::now()) {}
  ~GrpcStore() override;

  bool Serve();
  std::string address() const override {
    return endpoint_.any ? (endpoint_.v6 ? "::1" : "127.0.0.1") : endpoint_.address;
  }
  std::string bind() const override { return endpoint_.address; }
  int port() const override { return endpoint_.port; }

  Reactor* Join(grpc::CallbackServerContext* context) override;
  void Hear(Meeting::Connection id, ServerCall& call, const FromMember& message);
  void Lose(Meeting::Connection id);
  void Done(Meeting::Connection id);
  std::mutex& mutex() { return mutex_; }

 private:
  bool Knows(const grpc::CallbackServerContext& context) const;
  void WatchTheClock();

  const Options options_;
  const Endpoint endpoint_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable changed_;
  Meeting meeting_;
  std::map<Meeting::Connection, ServerCall*> calls_;
  Meeting::Connection last_ = 0;
  bool closing_ = false;
  std::thread clock_;
  std::unique_ptr<grpc::Server> server_;
};

// ---- One call ----

void ServerCall::OnReadDone(bool ok) {
  std::lock_guard lock(store_.mutex());
  if (!ok) {
    store_.Lose(id_);
    return Close(grpc::Status::OK);
  }
  store_.Hear(id_, *this, incoming_);
  if (!finishing_) StartRead(&incoming_);  // gRPC accepts no read once the call is being finished
}

void ServerCall::OnWriteDone(bool ok) {
  std::lock_guard lock(store_.mutex());
  outgoing_.pop_front();
  if (!ok) outgoing_.clear();  // reading fails, too, which ends the call
  if (!outgoing_.empty())
    StartWrite(&outgoing_.front());
  else if (finishing_)
    Finish(status_);
}

void ServerCall::OnDone() {
  store_.Done(id_);
  delete this;
}

// ---- The store ----

bool GrpcStore::Serve() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(PlaceText(endpoint_.address, endpoint_.port), grpc::InsecureServerCredentials());
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMostBytes);
  // Otherwise two stores would share a port and each get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  for (const auto& [name, value] : KeepAlive()) builder.AddChannelArgument(name, value);
  server_ = builder.BuildAndStart();
  if (server_ != nullptr) clock_ = std::thread([this] { WatchTheClock(); });
  return server_ != nullptr;
}

bool GrpcStore::Knows(const grpc::CallbackServerContext& context) const {
  const auto token = context.client_metadata().find(kTokenName);
  return token != context.client_metadata().end() &&
         std::string_view(token->second.data(), token->second.size()) == options_.token;
}

Reactor* GrpcStore::Join(grpc::CallbackServerContext* context) {
  std::lock_guard lock(mutex_);
  if (!Knows(*context)) {
    meeting_.RefusedStranger(context->peer());
    return new Stranger(StrCat(
        "the store at ", options_.place, " (", options_.process,
        ") belongs to another run: its job token differs. Choose another port (MASTER_PORT or fabric.rendezvous.port), "
        "or, if both belong to the same run, start all ranks with the same TWOFOLD_JOB_TOKEN"));
  }
  ServerCall* const call = new ServerCall(*this, ++last_);
  calls_[last_] = call;
  call->Start();
  return call;
}

void GrpcStore::Hear(Meeting::Connection id, ServerCall& call, const FromMember& message) {
  const absl::Status status = meeting_.Hear(id, message, Clock::now());
  if (!status.ok()) call.Close(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, std::string(status.message())));
}

void GrpcStore::Lose(Meeting::Connection id) { meeting_.Lose(id); }

void GrpcStore::Done(Meeting::Connection id) {
  std::lock_guard lock(mutex_);
  calls_.erase(id);
  changed_.notify_all();
}

void GrpcStore::WatchTheClock() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    meeting_.Tick(Clock::now());
    changed_.wait_for(lock, kTick, [this] { return closing_; });
  }
}

GrpcStore::~GrpcStore() {
  if (server_ == nullptr) return;
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    FromStore farewell;
    farewell.mutable_farewell();
    for (const auto& [id, call] : calls_) call->Queue(farewell);
    changed_.wait_for(lock, kFarewellTime, [this] { return calls_.empty(); });
  }
  clock_.join();
  server_->Shutdown(std::chrono::system_clock::now());  // cancels remaining calls
  server_->Wait();
}

// By default a process may have fewer open files than a large run has ranks. Each rank connects to the store and to the
// watch's hub.
absl::Status AllowConnections(const Store::Options& options) {
  return AllowOpenFiles(2 * int64_t{options.size} + kOtherFiles,
                        StrCat("fabric.rendezvous: rank 0 (", options.process, ")"),
                        StrCat("a store of ", options.size, " ranks"));
}

absl::Status Explain(const absl::Status& status, const Store::Options& options, const Endpoint& endpoint) {
  const std::string at = StrCat("fabric.rendezvous: rank 0 (", options.process, ") cannot listen at ",
                                PlaceText(options.bind, options.port));
  const std::string numbers = options.bind == endpoint.address ? "" : StrCat(", which is ", endpoint.address);
  const char* what = absl::IsInvalidArgument(status)
                         ? "; start rank 0 on the host that MASTER_ADDR (fabric.rendezvous.address) names, or set "
                           "fabric.rendezvous.bind to the address of this host to listen at (0.0.0.0 for all)"
                         : "; choose another port (MASTER_PORT or fabric.rendezvous.port)";
  return absl::Status(status.code(), StrCat(at, numbers, ": ", std::string(status.message()), what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Listen(const Options& options) {
  if (const absl::Status allowed = AllowConnections(options); !allowed.ok()) return allowed;
  auto endpoints = Resolve(options.bind, options.port);
  if (!endpoints.ok()) {
    return InvalidArgument("fabric.rendezvous: rank 0 (", options.process, ") cannot listen at ", options.bind, ": ",
                           std::string(endpoints.status().message()),
                           "; MASTER_ADDR (fabric.rendezvous.address) must name its host");
  }
  absl::Status why;
  for (Endpoint& endpoint : *endpoints) {
    if (!TokenSuffices(options.token, endpoint)) {
      return InvalidArgument("fabric.rendezvous: rank 0 (", options.process, ") would listen at ",
                             PlaceText(options.bind, options.port), WhyNoToken());
    }
    if (const absl::Status status = MayListen(endpoint); !status.ok()) {
      if (why.ok()) why = Explain(status, options, endpoint);
      continue;
    }
    auto store = std::make_unique<GrpcStore>(options, endpoint);
    if (store->Serve()) return store;
    if (why.ok()) why = Explain(Unavailable("gRPC cannot listen there"), options, endpoint);
  }
  return why;
}

}  // namespace twofold::rendezvous
