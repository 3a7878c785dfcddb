// Watches of several "processes" within one, over loopback connections.
#include "backends/watch/watch.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio.hpp>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::watch {
namespace watch_test {

using testing::AllOf;
using testing::HasSubstr;

// Watches as if of `n` processes, made at the same time as MPI processes would.
std::vector<std::unique_ptr<Watch>> Watches(int n) {
  auto card = std::make_shared<std::promise<std::string>>();
  const std::shared_future<std::string> written = card->get_future();
  std::vector<std::unique_ptr<Watch>> watches(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      watches[static_cast<size_t>(r)] = std::make_unique<Watch>(
          Watch::Options{.rank = r, .processes = n, .one_host = true, .broadcast = [&, r](std::string& bytes) {
                           if (r == 0)
                             card->set_value(bytes);
                           else
                             bytes = written.get();
                         }});
    });
  }
  for (std::thread& t : threads) t.join();
  return watches;
}

// Two watches as on two hosts, where rank 0 tells that it is at `address`; `hear` stands between it and what rank 1
// hears.
std::vector<std::unique_ptr<Watch>> OnTwoHosts(const std::string& address,
                                               const std::function<std::string(std::string)>& hear) {
  std::promise<std::string> card;
  std::future<std::string> written = card.get_future();
  std::vector<std::unique_ptr<Watch>> watches(2);
  std::thread first([&] {
    watches[0] = std::make_unique<Watch>(Watch::Options{
        .rank = 0, .processes = 2, .one_host = false, .address = address, .broadcast = [&](std::string& bytes) {
          card.set_value(bytes);
        }});
  });
  watches[1] = std::make_unique<Watch>(
      Watch::Options{.rank = 1, .processes = 2, .one_host = false, .broadcast = [&](std::string& bytes) {
                       bytes = hear(written.get());
                     }});
  first.join();
  return watches;
}

const std::string kUnknown(70, 'x');  // longer than a name may be: no resolver is asked

// Containers and clouds' hosts have names that nobody else knows: the address by which all have found rank 0 goes
// before its name.
TEST(Watch, TheHubIsFoundByTheAddressOfItsHost) {
  for (const std::string address : {"127.0.0.1", "localhost"}) {
    const auto watches = OnTwoHosts(address, [&](std::string card) {
      const std::string addresses = StrCat(address, ",", asio::ip::host_name(), " ");
      EXPECT_TRUE(card.starts_with(addresses)) << card;
      return StrCat(address, ",", kUnknown, " ", card.substr(addresses.size()));
    });
    for (auto& w : watches) w->Begin(2, 60, nullptr, [] {});
  }
}

TEST(Watch, TheHubIsFoundByItsNameWhereTheAddressFails) {
  OnTwoHosts(kUnknown, [&](const std::string& card) {
    const size_t name = card.find(','), port = card.find(' ');
    return StrCat(card.substr(0, name), ",localhost", card.substr(port));
  });
}

// The loopback address of IPv6, too, where there is one.
TEST(Watch, TheHubListensAtAddressesOfBothKinds) {
  asio::io_context io;
  asio::error_code error;
  asio::ip::tcp::acceptor probe(io);
  probe.open(asio::ip::tcp::v6(), error);
  if (!error) probe.bind({asio::ip::address_v6::loopback(), 0}, error);
  if (error) GTEST_SKIP() << "no IPv6 here: " << error.message();
  OnTwoHosts("::1", [](const std::string& card) { return "::1" + card.substr(card.find(' ')); });
}

// A watch of one process, and where it says that others find it.
std::string PlaceOf(Watch::Options options) {
  std::string place;
  options.broadcast = [&](std::string& card) { place = card.substr(0, card.find(' ', card.find(' ') + 1)); };
  const Watch watch(options);
  const std::string port = place.substr(place.find(' ') + 1);
  asio::io_context io;
  for (const std::string address : {"127.0.0.1", "127.0.0.2"}) {
    asio::ip::tcp::socket socket(io);
    asio::error_code error;
    socket.connect({asio::ip::make_address(address), static_cast<unsigned short>(std::stoi(port))}, error);
    StrAppend(&place, error ? ", not at " : ", at ", address);
  }
  return place.substr(0, place.find(' ')) + place.substr(place.find(','));
}

TEST(Watch, TheHubListensWhereItIsTold) {
  for (const bool one_host : {true, false}) {
    EXPECT_THAT(PlaceOf({.one_host = one_host, .bind = "127.0.0.2", .address = "127.0.0.2"}),
                testing::StartsWith("127.0.0.2, not at 127.0.0.1, at 127.0.0.2"));
    EXPECT_THAT(PlaceOf({.one_host = one_host, .bind = "0.0.0.0"}), testing::EndsWith(", at 127.0.0.1, at 127.0.0.2"));
  }
  EXPECT_EQ(PlaceOf({.one_host = true}), "127.0.0.1, at 127.0.0.1, not at 127.0.0.2");
  EXPECT_THAT(PlaceOf({.one_host = false}), testing::EndsWith(", at 127.0.0.1, at 127.0.0.2"));
}

TEST(Watch, AnAddressThatIsNotThisHostsIsNamed) {
  for (const std::string bind : {"203.0.113.1", "no-such-host.invalid"}) {  // the first for documentation, nobody's
    try {
      Watch(Watch::Options{.processes = 2, .bind = bind, .broadcast = [](std::string&) {}});
      FAIL();
    } catch (const std::runtime_error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0 (process "), HasSubstr(StrCat("cannot listen at ", bind, ": ")),
                                  HasSubstr("fabric.rendezvous.bind")));
    }
  }
}

TEST(Watch, WhoCannotReachTheHubSaysWhereItTried) {
  try {
    Watch(Watch::Options{.rank = 1, .processes = 2, .one_host = false, .broadcast = [](std::string& bytes) {
                           bytes = StrCat(kUnknown, ",127.0.0.1 1 token process 7 on a");
                         }});
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("cannot reach rank 0 (process 7 on a) at port 1 of"),
                                HasSubstr(kUnknown + ": "), HasSubstr("127.0.0.1 (127.0.0.1): ")));
  }
}

TEST(Watch, ResultsComeTogetherAtRankZero) {
  auto watches = Watches(3);
  for (int run = 0; run < 3; ++run) {
    std::vector<std::unique_ptr<host::RunState>> states;
    for (auto& w : watches) {
      states.push_back(std::make_unique<host::RunState>(3, 60));
      w->Begin(3, 60, states.back().get(), [] { ADD_FAILURE() << "nothing failed"; });
    }
    for (size_t r = 0; r < 3; ++r) watches[r]->Finish("result " + std::to_string(r));
    for (auto& w : watches) EXPECT_EQ(w->AwaitVerdict().code(), 0);
    EXPECT_THAT(watches[0]->Conclude().results, testing::ElementsAre("result 0", "result 1", "result 2"));
    EXPECT_TRUE(watches[1]->Conclude().status.ok());
  }
  EXPECT_TRUE(watches[0]->speaks());
  EXPECT_FALSE(watches[1]->speaks());
}

// A process that stands by may hear how a run ended before it has begun it.
TEST(Watch, WhoIsLateHearsTheVerdictToo) {
  auto watches = Watches(3);
  for (int run = 0; run < 3; ++run) {
    host::RunState state(1, 60);
    watches[0]->Begin(1, 60, &state, [] {});
    watches[1]->Begin(1, 60, nullptr, [] {});
    watches[0]->Finish("whole");
    EXPECT_EQ(watches[0]->AwaitVerdict().code(), 0);
    EXPECT_EQ(watches[1]->AwaitVerdict().code(), 0);
    watches[0]->Conclude();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    watches[2]->Begin(1, 60, nullptr, [] {});
    EXPECT_EQ(watches[2]->AwaitVerdict().code(), 0);
  }
}

// ... and though rank 0's process has ended since: it had told.
TEST(Watch, WhoIsLateHearsTheVerdictOfAHubThatHasEnded) {
  for (const int runs : {1, 2}) {
    auto watches = Watches(2);
    for (int run = 1; run <= runs; ++run) {
      host::RunState state(1, 60);
      watches[0]->Begin(1, 60, &state, [] {});
      watches[0]->Finish("whole");
      EXPECT_EQ(watches[0]->AwaitVerdict().code(), 0);
      watches[0]->Conclude();
      if (run == runs) watches[0].reset();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the other process has heard of both
      watches[1]->Begin(1, 60, nullptr, [] {});
      EXPECT_EQ(watches[1]->AwaitVerdict().code(), 0);
    }
  }
}

TEST(Watch, AFailureReachesEveryProcessAndPartsAreHandedIn) {
  auto watches = Watches(2);
  host::RunState first(2, 60), second(2, 60);
  std::atomic<int> told = 0;
  watches[0]->Begin(2, 60, &first, [&] { ++told; });
  watches[1]->Begin(2, 60, &second, [&] { ++told; });
  second.Explain(1, RankFailure::Kind::kOther, "rank 1: injected");
  for (auto& w : watches) EXPECT_EQ(w->AwaitVerdict().message(), "rank 1: injected");
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(first.ending());
  watches[0]->HandIn("part 0");
  watches[1]->HandIn("part 1");
  const RunResult result = watches[0]->Conclude();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(result.results, testing::ElementsAre("part 0", "part 1"));
}

TEST(Watch, ATimeOutNamesTheCall) {
  auto watches = Watches(2);
  host::RunState first(2, 0.2), second(2, 0.2);
  watches[0]->Begin(2, 0.2, &first, [] {});
  watches[1]->Begin(2, 0.2, &second, [] {});
  auto call = std::make_shared<host::Call>();
  call->group = std::make_shared<const std::string>("world");
  call->communication.kind = Communication::kBarrier;
  call->sequence = 4;
  call->identity = std::make_shared<host::GroupIdentity>(host::GroupIdentity{1, "world", {0, 1}});
  first.Begin(0, call);
  const control::Verdict v = watches[1]->AwaitVerdict();
  EXPECT_EQ(v.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(v.message(), AllOf(HasSubstr("rank 0: barrier (0 bytes), collective 4 of group world has waited 0.2 s"),
                                 HasSubstr("for rank 1, which has not communicated yet")));
  watches[0]->HandIn("");
  watches[1]->HandIn("");
  watches[0]->Conclude();
}

TEST(Watch, WhenTheHubIsLostRankOneSpeaks) {
  auto watches = Watches(3);
  host::RunState first(3, 60), second(3, 60), third(3, 60);
  watches[0]->Begin(3, 60, &first, [] {});
  watches[1]->Begin(3, 60, &second, [] {});
  watches[2]->Begin(3, 60, &third, [] {});
  std::thread end([&] { watches[0].reset(); });
  for (size_t r : {1u, 2u}) {
    const control::Verdict v = watches[r]->AwaitVerdict();
    EXPECT_EQ(v.code(), static_cast<int>(absl::StatusCode::kUnavailable));
    EXPECT_THAT(v.message(), HasSubstr("lost rank 0"));
    watches[r]->HandIn("part " + std::to_string(r));
  }
  end.join();
  EXPECT_TRUE(watches[1]->speaks());
  EXPECT_FALSE(watches[2]->speaks());
  EXPECT_THAT(watches[1]->Conclude().results, testing::ElementsAre("", "part 1", ""));
}

// Whoever connects without the run's token is turned away and changes nothing.
TEST(Watch, StrangersAreTurnedAway) {
  std::string card;
  std::promise<void> listening;
  std::unique_ptr<Watch> hub;
  std::thread make([&] {
    hub = std::make_unique<Watch>(Watch::Options{.rank = 0, .processes = 2, .broadcast = [&](std::string& bytes) {
                                                   card = bytes;
                                                   listening.set_value();
                                                 }});
  });
  listening.get_future().wait();
  const std::string port = card.substr(10, card.find(' ', 10) - 10);  // after "127.0.0.1 "
  asio::io_context io;
  // A length that is no stranger's; a message without a hello.
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x04\0\0\0\x0a\x02\x08\x01", 8)}) {
    asio::ip::tcp::socket socket(io);
    asio::connect(socket, asio::ip::tcp::resolver(io).resolve("127.0.0.1", port));
    asio::write(socket, asio::buffer(said));
    char byte;
    asio::error_code error;
    EXPECT_EQ(socket.read_some(asio::buffer(&byte, 1), error), 0u);
    EXPECT_TRUE(error);
  }
  Watch member({.rank = 1, .processes = 2, .broadcast = [&](std::string& bytes) { bytes = card; }});
  make.join();
  asio::ip::tcp::socket late(io);
  asio::error_code refused;
  asio::connect(late, asio::ip::tcp::resolver(io).resolve("127.0.0.1", port), refused);
  EXPECT_TRUE(refused) << "nobody else is awaited";
  hub->Begin(2, 60, nullptr, [] {});
  member.Begin(2, 60, nullptr, [] {});
  hub->Finish("a");
  member.Finish("b");
  EXPECT_EQ(member.AwaitVerdict().code(), 0);
}

// ---- Starting, with processes that are not watches ----

// Rank 0 of `processes`, which waits for the others on a thread of its own.
class StartingHub {
 public:
  explicit StartingHub(int processes, double connect_timeout_s = 5) {
    thread_ = std::thread([this, processes, connect_timeout_s] {
      try {
        watch_ =
            std::make_unique<Watch>(Watch::Options{.rank = 0,
                                                   .processes = processes,
                                                   .broadcast = [this](std::string& bytes) { card_.set_value(bytes); },
                                                   .connect_timeout_s = connect_timeout_s});
      } catch (const std::exception& e) {
        why_not_ = e.what();
      }
    });
  }
  ~StartingHub() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string& card() {
    if (text_.empty()) text_ = card_.get_future().get();
    return text_;
  }
  std::unique_ptr<Watch> Join(int rank, int processes) {
    return std::make_unique<Watch>(Watch::Options{
        .rank = rank, .processes = processes, .broadcast = [this](std::string& bytes) { bytes = card(); }});
  }
  // Null where not all have come: then why_not().
  Watch* Await() {
    thread_.join();
    return watch_.get();
  }
  const std::string& why_not() const { return why_not_; }

 private:
  std::promise<std::string> card_;
  std::string text_, why_not_;
  std::unique_ptr<Watch> watch_;
  std::thread thread_;
};

// A connection to a hub. Its socket, a file, is there from the beginning.
class Caller {
 public:
  explicit Caller(asio::io_context& io) : socket_(io) { socket_.open(asio::ip::tcp::v4()); }
  void Call(const std::string& card) {
    const size_t space = card.find(' ');
    socket_.connect({asio::ip::make_address(card.substr(0, space)),
                     static_cast<unsigned short>(std::stoi(card.substr(space + 1)))});
  }
  void SayHello(const std::string& card, int rank) {
    control::ToHub message;
    message.mutable_hello()->set_rank(rank);
    message.mutable_hello()->set_token(card.substr(card.find(' ', card.find(' ') + 1) + 1, 32));
    message.mutable_hello()->set_process("a caller");
    const std::string body = message.SerializeAsString();
    asio::write(socket_, asio::buffer(std::string({static_cast<char>(body.size()), 0, 0, 0}) + body));
  }
  // Within a while.
  bool IsTurnedAway() {
    const timeval while_ = {.tv_sec = 2, .tv_usec = 0};
    setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &while_, sizeof while_);
    char byte = 0;
    const ssize_t got = recv(socket_.native_handle(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

 private:
  asio::ip::tcp::socket socket_;
};

// The limit of open files, which is put back at the end.
class FileLimit {
 public:
  FileLimit() { getrlimit(RLIMIT_NOFILE, &before_); }
  ~FileLimit() { Restore(); }
  void Set(rlim_t soft) { Set({soft, before_.rlim_max}); }
  void Restore() { Set(before_); }
  static rlim_t OpenNow() {
    return static_cast<rlim_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
  }

 private:
  static void Set(const rlimit& limit) { ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0); }
  rlimit before_{};
};

TEST(StartingWatch, GoesOnAcceptingAfterAnErrorThatPasses) {
  asio::io_context io;
  Caller caller(io);
  StartingHub hub(2);
  hub.card();
  FileLimit limit;
  limit.Set(0);
  caller.Call(hub.card());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // in which the hub tries to accept it
  limit.Restore();
  caller.SayHello(hub.card(), 1);
  EXPECT_NE(hub.Await(), nullptr) << hub.why_not();
}

TEST(StartingWatch, AllowsItselfAConnectionForEachProcess) {
  constexpr int kProcesses = 61;
  asio::io_context io;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int rank = 1; rank < kProcesses; ++rank) callers.push_back(std::make_unique<Caller>(io));
  FileLimit limit;
  limit.Set(FileLimit::OpenNow() + 20);
  StartingHub hub(kProcesses);
  for (int rank = 1; rank < kProcesses; ++rank) {
    callers[static_cast<size_t>(rank - 1)]->Call(hub.card());
    callers[static_cast<size_t>(rank - 1)]->SayHello(hub.card(), rank);
  }
  EXPECT_NE(hub.Await(), nullptr) << hub.why_not();
}

TEST(StartingWatchDeathTest, SaysBeforeRanksStartThatItMayHaveTooFewFiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto start = [] {
    const rlimit few = {100, 100};
    setrlimit(RLIMIT_NOFILE, &few);
    try {
      const Watch watch({.rank = 0, .processes = 200, .broadcast = [](std::string&) {}, .connect_timeout_s = 0.1});
    } catch (const std::runtime_error& e) {
      std::fputs(e.what(), stderr);
    }
    _exit(0);
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(0),
              "rank 0 .process .* may have only 100 files open, but a run of 200 processes needs [23][0-9][0-9]; raise "
              "the hard limit .ulimit -Hn.");
}

TEST(StartingWatch, HearsNobodyWhoSaysTwiceWhoItIs) {
  asio::io_context io;
  Caller caller(io);
  StartingHub hub(3);
  caller.Call(hub.card());
  caller.SayHello(hub.card(), 1);
  caller.SayHello(hub.card(), 2);
  ASSERT_TRUE(caller.IsTurnedAway());
  const auto second = hub.Join(2, 3);
  Watch* const first = hub.Await();
  ASSERT_NE(first, nullptr) << hub.why_not();
  host::RunState run(3, 60);
  first->Begin(3, 60, &run, [] {});
  EXPECT_THAT(first->AwaitVerdict().message(),
              HasSubstr("lost rank 1: its process (a caller) introduced itself twice"));
}

TEST(StartingWatch, WaitsForALongTimeWhereThatHasNoEnd) {
  for (const double forever : {std::numeric_limits<double>::infinity(), 1e300}) {
    StartingHub hub(2, forever);
    hub.card();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const auto member = hub.Join(1, 2);
    EXPECT_NE(hub.Await(), nullptr) << hub.why_not();
  }
}

// Its timer may go off at the moment when it is taken down.
TEST(Watch, EndsAtAnyMoment) {
  for (int i = 0; i < 40; ++i) {
    auto watches = Watches(2);
    std::this_thread::sleep_for(std::chrono::microseconds(19000 + 50 * i));
  }
}

TEST(Watch, WhoDoesNotComeIsMissed) {
  try {
    Watch({.rank = 0, .processes = 3, .broadcast = [](std::string&) {}, .connect_timeout_s = 0.2});
    FAIL() << "nobody came";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(std::string(e.what()), HasSubstr("only 0 of 2 processes reached rank 0"));
  }
}

}  // namespace watch_test
}  // namespace twofold::watch
