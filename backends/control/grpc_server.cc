#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>

#include <deque>
#include <mutex>
#include <string_view>
#include <utility>

#include "backends/control/acceptor.h"
#include "backends/control/address.h"
#include "backends/control/control.grpc.pb.h"
#include "backends/control/grpc_settings.h"
#include "backends/control/server.h"
#include "core/base/machine.h"
#include "core/base/open_files.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

using Reactor = grpc::ServerBidiReactor<ToHub, FromHub>;

constexpr int kMostSilent = 64;      // connections that have sent nothing
constexpr int64_t kOtherFiles = 64;  // files besides the connections
constexpr int kHandshakeMs = 10000;  // a connection that does not become one of gRPC's is closed after this time
constexpr int kIdleMs = 30000;       // and so is one without a call

// One process's call.
class ServerCall final : public Reactor {
 public:
  explicit ServerCall(Desk& desk)
      : desk_(desk),
        id_(desk.Open(
            {[this](FromHub message) { Queue(std::move(message)); }, [this](const absl::Status& why) { End(why); }})) {
    StartRead(&incoming_);
  }

 private:
  void Queue(FromHub message) {
    std::lock_guard lock(mutex_);
    if (ending_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }
  // Ends the call once everything queued has been written.
  void End(const absl::Status& why) {
    std::lock_guard lock(mutex_);
    if (std::exchange(ending_, true)) return;
    status_ = grpc::Status(static_cast<grpc::StatusCode>(why.code()), std::string(why.message()));
    if (outgoing_.empty()) Finish(status_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(absl::OkStatus());
    if (const absl::Status refused = desk_.Hear(id_, incoming_); !refused.ok()) End(refused);
    std::lock_guard lock(mutex_);
    if (!ending_) StartRead(&incoming_);  // gRPC accepts no read once the call is being finished
  }
  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // reading fails, too, which ends the call
    if (!outgoing_.empty())
      StartWrite(&outgoing_.front());
    else if (ending_)
      Finish(status_);
  }
  void OnDone() override {
    desk_.Close(id_);
    delete this;
  }

  Desk& desk_;
  std::mutex mutex_;  // guards the members below except `incoming_`
  bool ending_ = false;
  grpc::Status status_;
  std::deque<FromHub> outgoing_;  // the first is being written
  ToHub incoming_;
  const Plane::Connection id_;
};

class Stranger final : public Reactor {
 public:
  explicit Stranger(const std::string& why) { Finish(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why)); }
  void OnDone() override { delete this; }
};

class GrpcServer final : public Server, public Control::CallbackService {
 public:
  GrpcServer(Options options, Endpoint endpoint, std::unique_ptr<Acceptor> acceptor)
      : options_(std::move(options)),
        endpoint_(std::move(endpoint)),
        desk_(std::make_shared<Desk>(Plane::Options{.size = options_.size,
                                                    .timeout_s = options_.timeout_s,
                                                    .place = options_.place,
                                                    .process = options_.process,
                                                    .least_silence_s = options_.least_silence_s})),
        acceptor_(std::move(acceptor)) {}
  ~GrpcServer() override {
    if (server_ == nullptr) return;
    desk_->SayFarewell();
    acceptor_.reset();
    server_->Shutdown(std::chrono::system_clock::now());  // cancels remaining calls
    server_->Wait();
  }

  bool Serve();
  const std::shared_ptr<Desk>& desk() const override { return desk_; }
  std::string bind() const override { return endpoint_.address; }
  int port() const override { return endpoint_.port; }
  Reactor* Attend(grpc::CallbackServerContext* context) override;

 private:
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  bool Knows(const grpc::CallbackServerContext& context) const;

  const Options options_;
  const Endpoint endpoint_;
  const std::shared_ptr<Desk> desk_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

std::shared_ptr<grpc::ServerCredentials> GrpcServer::Credentials() const {
  if (!options_.tls.on()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(ProviderOf(options_.tls));
  Identify(options);
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

bool GrpcServer::Serve() {
  grpc::ServerBuilder builder;
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, Credentials());
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMostBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return false;
  acceptor_->Start(kMostSilent, [this](int socket) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    connections_->HandleNewConnection(&connection);
  });
  return true;
}

bool GrpcServer::Knows(const grpc::CallbackServerContext& context) const {
  const auto token = context.client_metadata().find(kTokenName);
  return token != context.client_metadata().end() &&
         std::string_view(token->second.data(), token->second.size()) == options_.token;
}

Reactor* GrpcServer::Attend(grpc::CallbackServerContext* context) {
  if (Knows(*context)) return new ServerCall(*desk_);
  desk_->RefusedStranger(context->peer());
  return new Stranger(
      StrCat("the store at ", options_.place, " (", options_.process,
             ") belongs to another run: its job token differs. Choose another port (MASTER_PORT or "
             "fabric.rendezvous.port), or, if both belong to the same run, start all ranks with the same "
             "TWOFOLD_JOB_TOKEN"));
}

// By default a process may have fewer open files than a large run has ranks.
absl::Status AllowConnections(const Server::Options& options) {
  return AllowOpenFiles(options.size + kMostSilent + kOtherFiles,
                        StrCat("fabric.rendezvous: rank 0 (", options.process, ")"),
                        StrCat("a store of ", options.size, " ranks"));
}

absl::Status Explain(const absl::Status& status, const Server::Options& options, const Endpoint& endpoint) {
  const std::string at = StrCat("fabric.rendezvous: rank 0 (", options.process, ") cannot listen at ",
                                PlaceText(options.bind, options.port));
  const std::string numbers = options.bind == endpoint.address ? "" : StrCat(", which is ", endpoint.address);
  const char* what = absl::IsInvalidArgument(status)
                         ? "; start rank 0 on the host that MASTER_ADDR (fabric.rendezvous.address) names, or set "
                           "fabric.rendezvous.bind to the address of this host to listen at (0.0.0.0 for all)"
                         : "; choose another port (MASTER_PORT or fabric.rendezvous.port)";
  return absl::Status(status.code(), StrCat(at, numbers, ": ", std::string(status.message()), what));
}

// Every address of this host: those of IPv4, too, if it has IPv6.
std::vector<Endpoint> Everywhere(int port) {
  return {{.address = "::", .port = port, .v6 = true, .any = true}, {.address = "0.0.0.0", .port = port, .any = true}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Listen(const Options& options) {
  if (const absl::Status allowed = AllowConnections(options); !allowed.ok()) return allowed;
  auto endpoints = options.bind.empty() ? Everywhere(options.port) : Resolve(options.bind, options.port);
  if (!endpoints.ok()) {
    return InvalidArgument("fabric.rendezvous: rank 0 (", options.process, ") cannot listen at ", options.bind, ": ",
                           std::string(endpoints.status().message()),
                           "; MASTER_ADDR (fabric.rendezvous.address) or fabric.rendezvous.bind must name its host");
  }
  absl::Status why;
  for (Endpoint& endpoint : *endpoints) {
    if (!TokenSuffices(options.token, endpoint)) {
      return InvalidArgument("fabric.rendezvous: rank 0 (", options.process, ") would listen at ",
                             PlaceText(options.bind, options.port), WhyNoToken());
    }
    auto acceptor = Acceptor::Listen(endpoint);
    if (!acceptor.ok()) {
      if (why.ok()) why = Explain(acceptor.status(), options, endpoint);
      continue;
    }
    endpoint.port = (*acceptor)->port();
    Options its = options;
    if (its.place.empty()) its.place = PlaceText(endpoint.any ? HostName() : endpoint.address, endpoint.port);
    auto server = std::make_unique<GrpcServer>(std::move(its), endpoint, *std::move(acceptor));
    if (server->Serve()) return server;
    if (why.ok()) why = Explain(Unavailable("gRPC cannot serve there"), options, endpoint);
  }
  return why;
}

}  // namespace twofold::control
