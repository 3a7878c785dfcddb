// Who comes to the served control plane: strangers, a thousand ranks, processes with certificates, and those that MPI's
// broadcast tells where it is.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <asio.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "backends/control/acceptor.h"
#include "backends/control/control.grpc.pb.h"
#include "backends/control/grpc_settings.h"
#include "backends/processes/meeting.h"
#include "core/base/machine.h"
#include "tests/scratch_folder.h"
#include "tests/unit/control/elastic_rank.h"
#include "tests/unit/control/job.h"

namespace twofold::control {
namespace admission_test {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Strangers ----

std::unique_ptr<grpc::ClientReaderWriter<ToHub, FromHub>> Call(Control::Stub& stub, grpc::ClientContext& context,
                                                               const std::string& token) {
  context.AddMetadata(kTokenName, token);
  return stub.Attend(&context);
}

std::shared_ptr<grpc::Channel> Channel(int port) {
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), own);
}

ToHub HelloOf(int rank, int size, bool newcomer = false) {
  ToHub message;
  Hello& hello = *message.mutable_hello();
  hello.set_version(kVersion);
  hello.set_rank(rank);
  hello.set_size(size);
  hello.set_newcomer(newcomer);
  hello.set_host("node1");
  hello.set_machine("node1");
  hello.set_patience_s(60);
  return message;
}

// Why the plane ended a call in which `message` was sent.
std::string EndOf(int port, const std::string& token, const ToHub& message) {
  const auto stub = Control::NewStub(Channel(port));
  grpc::ClientContext context;
  const auto call = Call(*stub, context, token);
  call->Write(message);
  FromHub answer;
  while (call->Read(&answer)) {
  }
  return call->Finish().error_message();
}

TEST(Admission, LiarsAndStrangersAreRefusedAlone) {
  Job job(2);
  host::RunState first(2, 60), second(2, 60);
  job.of(0)->Begin(
      2, 60, &first, [] {}, [](const Broken&) { ADD_FAILURE() << "the generation is whole"; });
  job.of(1)->Begin(
      2, 60, &second, [] {}, [](const Broken&) { ADD_FAILURE() << "the generation is whole"; });
  EXPECT_THAT(EndOf(job.port(), "theirs", HelloOf(1, 2)), HasSubstr("belongs to another run"));
  EXPECT_THAT(EndOf(job.port(), "ours", HelloOf(1, 2)), HasSubstr("rank 1 joined twice"));
  EXPECT_THAT(EndOf(job.port(), "ours", HelloOf(1, 3)), HasSubstr("was told that there are 3 ranks"));
  ToHub lie;
  lie.mutable_reform()->set_generation(1);
  EXPECT_THAT(EndOf(job.port(), "ours", lie), HasSubstr("must introduce itself first"));
  {
    const auto stub = Control::NewStub(Channel(job.port()));
    grpc::ClientContext context;
    const auto call = Call(*stub, context, "ours");
    call->Write(HelloOf(0, 2, true));
    lie.set_run(1);
    call->Write(lie);
    FromHub answer;
    while (call->Read(&answer) && !answer.has_refused()) {
    }
    EXPECT_THAT(answer.refused().message(), HasSubstr("not a member"));
    ToHub begins;
    begins.mutable_begin()->set_world_size(1);
    call->Write(begins);
    while (call->Read(&answer)) {
    }
    EXPECT_THAT(call->Finish().error_message(), HasSubstr("only rank 0 does"));
  }
  job.of(0)->Finish("a");
  job.of(1)->Finish("b");
  EXPECT_EQ(job.of(1)->AwaitVerdict().code(), 0);
  EXPECT_THAT(job.of(0)->Conclude().results, testing::Contains("b"));
}

TEST(Admission, AFloodOfGarbageNeitherStopsNorEntersAJob) {
  auto server = *Server::Listen({.size = 2, .bind = "127.0.0.1", .process = "process 100 on node0", .token = "ours"});
  const int port = server->port();
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> strangers;
  const asio::ip::tcp::endpoint at(asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port));
  const std::string garbage[] = {"", "GET / HTTP/1.1\r\n\r\n",
                                 "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(64, '\xff'),
                                 std::string("\x16\x03\x01\x02\x00", 5), std::string(1 << 16, '\0')};
  for (int i = 0; i < 300; ++i) {
    strangers.emplace_back(io).connect(at);
    asio::error_code ignored;
    asio::write(strangers.back(), asio::buffer(garbage[static_cast<size_t>(i) % std::size(garbage)]), ignored);
  }
  const Client::Options options = {.size = 2, .hosts = {"127.0.0.1"}, .port = port, .timeout_s = 60, .token = "ours"};
  Client::Options second = options;
  second.rank = 1;
  auto one = std::async(std::launch::async, [&] { return Client::Join(second); });
  const auto zero = Client::Join(options, std::move(server));
  ASSERT_TRUE(zero.ok()) << Text(zero.status());
  const auto joined = one.get();
  ASSERT_TRUE(joined.ok()) << Text(joined.status());
}

TEST(Admission, GoesOnAcceptingAfterItHadNoFilesLeft) {
  auto acceptor = *Acceptor::Listen({.address = "127.0.0.1"});
  std::promise<int> taken;
  acceptor->Start(4, [&taken](int socket) { taken.set_value(socket); });
  asio::io_context io;
  asio::ip::tcp::socket caller(io);
  caller.open(asio::ip::tcp::v4());
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  caller.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(acceptor->port())});
  asio::write(caller, asio::buffer("x", 1));
  std::this_thread::sleep_for(milliseconds(100));  // in which it tries to accept
  setrlimit(RLIMIT_NOFILE, &before);
  std::future<int> socket = taken.get_future();
  ASSERT_EQ(socket.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  close(socket.get());
}

// ---- Many ranks ----

// A rank that does no more than come, on a channel that others use, too.
class LightRank final : public grpc::ClientBidiReactor<ToHub, FromHub> {
 public:
  LightRank(Control::Stub& stub, int rank, int size, std::function<void()> seated)
      : hello_(HelloOf(rank, size)), seated_(std::move(seated)) {
    context_.AddMetadata(kTokenName, "ours");
    stub.async()->Attend(&context_, this);
    StartWrite(&hello_);
    StartRead(&incoming_);
    StartCall();
  }
  void Leave() { context_.TryCancel(); }
  void AwaitEnd() { done_.get_future().wait(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (incoming_.has_seat()) seated_();
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status&) override { done_.set_value(); }

  const ToHub hello_;
  const std::function<void()> seated_;
  grpc::ClientContext context_;
  FromHub incoming_;
  std::promise<void> done_;
};

TEST(Admission, AThousandRanksMeet) {
  constexpr int kSize = 1000, kChannels = 8;
  auto server =
      *Server::Listen({.size = kSize, .bind = "127.0.0.1", .process = "process 100 on node0", .token = "ours"});
  std::vector<std::unique_ptr<Control::Stub>> stubs;
  for (int c = 0; c < kChannels; ++c) stubs.push_back(Control::NewStub(Channel(server->port())));
  std::mutex mutex;
  std::condition_variable changed;
  int seated = 0;
  std::vector<std::unique_ptr<LightRank>> ranks;
  const auto start = std::chrono::steady_clock::now();
  for (int r = 0; r < kSize; ++r) {
    ranks.push_back(std::make_unique<LightRank>(*stubs[static_cast<size_t>(r % kChannels)], r, kSize, [&] {
      std::lock_guard lock(mutex);
      if (++seated == kSize) changed.notify_all();
    }));
  }
  {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return seated == kSize; })) << seated;
  }
  RecordProperty("seconds",
                 std::to_string(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
  for (auto& rank : ranks) rank->Leave();
  for (auto& rank : ranks) rank->AwaitEnd();
}

// ---- Certificates ----

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    std::filesystem::create_directories(folder_);
    if (std::system("command -v openssl > /dev/null") != 0) return;
    made_ = Authority("ca") && Authority("other") && Signed("rank", "ca") && Signed("stranger", "other");
    EXPECT_TRUE(made_);
  }
  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  bool Authority(const std::string& name) {
    return Run(StrCat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=", name,
                      " -keyout ", File(name + ".key"), " -out ", File(name + ".pem")));
  }
  bool Signed(const std::string& name, const std::string& authority) {
    return Run(StrCat("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=", name, " -keyout ",
                      File(name + ".key"), " -out ", File(name + ".csr"))) &&
           Run(StrCat("x509 -req -days 2 -in ", File(name + ".csr"), " -CA ", File(authority + ".pem"), " -CAkey ",
                      File(authority + ".key"), " -CAcreateserial -out ", File(name + ".pem")));
  }
  static bool Run(const std::string& arguments) {
    return std::system(StrCat("openssl ", arguments, " > /dev/null 2>&1").c_str()) == 0;
  }
  absl::StatusOr<Tls> Read(const std::string& certificate, const std::string& key, const std::string& authority) {
    return ReadTls(File(certificate), File(key), File(authority));
  }

  const std::string folder_ = test::ScratchFolder("tls");
  bool made_ = false;
};

TEST_F(TlsTest, ProcessesOfOneAuthorityMeetAndOthersDoNot) {
  if (!made_) GTEST_SKIP() << "there is no openssl here";
  const Tls ours = *Read("rank.pem", "rank.key", "ca.pem");
  Job job(2, ours);
  auto gathered = std::async(std::launch::async, [&] { return job.of(1)->AllGather("b"); });
  EXPECT_THAT(*job.of(0)->AllGather("a"), ElementsAre("a", "b"));
  EXPECT_THAT(*gathered.get(), ElementsAre("a", "b"));
  const Tls theirs = *Read("stranger.pem", "stranger.key", "other.pem");
  for (const Tls& tls : {theirs, Tls()}) {
    Client::Options stranger = job.Options(1);
    stranger.tls = tls;
    stranger.timeout_s = 0.5;
    const absl::Status refused = Client::Join(stranger).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDeadlineExceeded) << Text(refused);
  }
  Client::Options again = job.Options(1);
  EXPECT_THAT(Text(Client::Join(again).status()), HasSubstr("rank 1 joined twice"));
}

TEST_F(TlsTest, WhatIsSentIsEncrypted) {
  if (!made_) GTEST_SKIP() << "there is no openssl here";
  const Tls ours = *Read("rank.pem", "rank.key", "ca.pem");
  for (const Tls& tls : {ours, Tls()}) {
    auto server = *Server::Listen(
        {.size = 1, .bind = "127.0.0.1", .process = "process 100 on node0", .token = "a secret token", .tls = tls});
    // Between them stands one that listens in.
    asio::io_context io;
    asio::ip::tcp::acceptor front(io, {asio::ip::make_address("127.0.0.1"), 0});
    std::string heard;
    std::thread listens([&] {
      asio::ip::tcp::socket client = front.accept(), plane(io);
      plane.connect({asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(server->port())});
      std::thread back([&] {
        char bytes[4096];
        asio::error_code error;
        while (const size_t n = plane.read_some(asio::buffer(bytes), error))
          asio::write(client, asio::buffer(bytes, n), error);
        client.shutdown(asio::ip::tcp::socket::shutdown_both, error);
      });
      char bytes[4096];
      asio::error_code error;
      while (const size_t n = client.read_some(asio::buffer(bytes), error)) {
        heard.append(bytes, n);
        asio::write(plane, asio::buffer(bytes, n), error);
      }
      plane.shutdown(asio::ip::tcp::socket::shutdown_both, error);
      back.join();
    });
    {
      auto client = Client::Join(Client::Options{.hosts = {"127.0.0.1"},
                                                 .port = front.local_endpoint().port(),
                                                 .timeout_s = 60,
                                                 .token = "a secret token",
                                                 .tls = tls});
      ASSERT_TRUE(client.ok()) << Text(client.status());
      EXPECT_TRUE((*client)->Set("a key", "bytes that are easily found").ok());
    }
    listens.join();
    EXPECT_EQ(heard.find("bytes that are easily found") == std::string::npos, tls.on());
  }
}

TEST_F(TlsTest, BadFilesAreNamed) {
  if (!made_) GTEST_SKIP() << "there is no openssl here";
  std::ofstream(File("text.pem")) << "no certificate\n";
  const struct {
    const char *certificate, *key, *authority;
    std::string why;
  } cases[] = {
      {"none.pem", "rank.key", "ca.pem",
       "fabric.rendezvous.tls.certificate: \"*none.pem\" cannot be read: No such file"},
      {"text.pem", "rank.key", "ca.pem", "fabric.rendezvous.tls.certificate: \"*text.pem\" holds no certificate"},
      {"rank.pem", "text.pem", "ca.pem", "fabric.rendezvous.tls.key: \"*text.pem\" holds no private key"},
      {"rank.pem", "stranger.key", "ca.pem", "fabric.rendezvous.tls.key: \"*stranger.key\" is not the key of"},
      {"rank.pem", "rank.key", "text.pem", "fabric.rendezvous.tls.authority: \"*text.pem\" holds no certificate"},
      {"rank.pem", "rank.key", "other.pem", "fabric.rendezvous.tls.certificate: \"*rank.pem\" is not valid under"},
  };
  for (const auto& c : cases) {
    const absl::Status status = Read(c.certificate, c.key, c.authority).status();
    const size_t star = c.why.find('*');
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Text(status), AllOf(HasSubstr(c.why.substr(0, star)), HasSubstr(c.why.substr(star + 1))));
  }
}

// ---- Meeting by MPI's broadcast ----

class BroadcastMeeting {
 public:
  explicit BroadcastMeeting(const processes::ByBroadcast& by, const std::string& spec = "",
                            const std::function<std::string(std::string)>& hear = nullptr) {
    spec::Rendezvous rendezvous;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, &rendezvous));
    if (!rendezvous.has_timeout_s()) rendezvous.set_timeout_s(60);
    std::promise<std::string> card;
    std::shared_future<std::string> written = card.get_future();
    auto meet = [&](int rank) {
      processes::ByBroadcast its = by;
      its.rank = rank;
      its.size = 2;
      its.broadcast = [&, rank](std::string& bytes) {
        if (rank == 0)
          card.set_value(bytes);
        else
          bytes = hear == nullptr ? written.get() : hear(written.get());
      };
      return processes::Meet(its, rendezvous);
    };
    auto second = std::async(std::launch::async, [&] { return meet(1); });
    zero = meet(0);
    one = second.get();
    told = written.get();
  }
  absl::StatusOr<std::unique_ptr<Client>> zero = absl::UnknownError(""), one = absl::UnknownError("");
  std::string told;
};

const std::string kUnknown(70, 'x');  // longer than a name may be: no resolver is asked

// Containers and clouds' hosts have names that nobody else knows: the address by which all have found rank 0 goes
// before its name.
TEST(MeetByBroadcast, ThePlaneIsFoundByTheAddressOfItsHostOrByItsName) {
  for (const std::string address : {"127.0.0.1", "localhost"}) {
    const BroadcastMeeting met({.one_host = false, .address = address}, "", [&](std::string card) {
      EXPECT_TRUE(card.ends_with(StrCat(" ", address, ",", HostName()))) << card;
      return card.substr(0, card.rfind(',') + 1) + kUnknown;
    });
    EXPECT_TRUE(met.zero.ok() && met.one.ok()) << Text(met.zero.status()) << Text(met.one.status());
  }
  const BroadcastMeeting met({.one_host = false, .address = kUnknown}, "",
                             [&](std::string card) { return card.substr(0, card.rfind(',') + 1) + "localhost"; });
  EXPECT_TRUE(met.zero.ok() && met.one.ok()) << Text(met.zero.status()) << Text(met.one.status());
}

TEST(MeetByBroadcast, OnOneHostListensAtTheLoopbackAddress) {
  const BroadcastMeeting met({.one_host = true, .described = "MPI"});
  ASSERT_TRUE(met.zero.ok() && met.one.ok()) << Text(met.zero.status()) << Text(met.one.status());
  EXPECT_TRUE(met.told.ends_with(" 127.0.0.1")) << met.told;
  EXPECT_EQ((*met.one)->options().described, "MPI");
  EXPECT_EQ((*met.one)->local_rank(), 1);
}

TEST(MeetByBroadcast, AllLearnWhyThereIsNoPlane) {
  const BroadcastMeeting met({.one_host = true}, "bind: '203.0.113.1'");  // for documentation, nobody's
  for (const auto& each : {&met.zero, &met.one}) {
    EXPECT_THAT(Text(each->status()),
                AllOf(HasSubstr("cannot listen at 203.0.113.1"), HasSubstr("fabric.rendezvous.bind")));
  }
}

}  // namespace admission_test
}  // namespace twofold::control
