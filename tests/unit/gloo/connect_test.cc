// Connecting the members of a group, of whom one is lost meanwhile. Each rank is a thread with a transport of its own.
#include "backends/gloo/context.h"

#include <gloo/common/error.h>
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/gloo_addresses.h"
#include "tests/seed.h"
#include "tests/unit/gloo/meeting.h"

namespace twofold::gloo {
namespace connect_test {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kNeverReached = 60;  // seconds
constexpr char kBroken[] = "the generation of members is broken";

// Ranks 0 to size - 1 connect. The one that is `lost` does no more than tell addresses.
class Group {
 public:
  Group(int size, double timeout_s, int lost = -1, int port_of_lost = 0)
      : abortion_(std::make_shared<Abortion>()), meeting_(size), outcomes_(size) {
    for (int r = 0; r < size; ++r) {
      threads_.emplace_back([this, r, size, timeout_s, lost, port_of_lost] {
        if (r == lost) meeting_.Exchange(r, test::GlooAddressesAt(port_of_lost, size - 1));
        ContextPtr context;
        std::string outcome = "connected";
        try {
          const auto exchange = [this, r](std::string bytes) { return meeting_.Exchange(r, std::move(bytes)); };
          if (r != lost) context = Connect(r, size, exchange, MakeTransport(true, ""), abortion_, timeout_s);
        } catch (const std::exception& e) {
          outcome = e.what();
        }
        outcomes_.Exchange(r, outcome);  // a context that goes away resets its connections
      });
    }
  }
  ~Group() {
    for (std::thread& thread : threads_) thread.join();
  }
  Abortion& abortion() { return *abortion_; }
  // What became of all.
  std::vector<std::string> Outcomes() { return outcomes_.All(); }

 private:
  const std::shared_ptr<Abortion> abortion_;
  Meeting meeting_, outcomes_;
  std::vector<std::thread> threads_;
};

double Seconds(const std::function<void()>& fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(GlooConnect, ConnectsAll) {
  for (const int size : {1, 2, 5}) EXPECT_THAT(Group(size, kNeverReached).Outcomes(), Each("connected")) << size;
}

TEST(GlooConnect, WhoWaitsForAConnectionThatDoesNotComeIsWoken) {
  const double seconds = Seconds([] {
    Group group(3, kNeverReached, 1, test::kPortAbove);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // most likely, they wait
    group.abortion().Abort();
    for (const int r : {0, 2}) EXPECT_THAT(group.Outcomes()[static_cast<size_t>(r)], HasSubstr(kBroken)) << r;
  });
  EXPECT_LT(seconds, kNeverReached / 2);
}

TEST(GlooConnect, OneThatIsGoneIsRefusedAtOnce) {
  Group group(2, kNeverReached, 1, test::kPortBelow);
  EXPECT_THAT(group.Outcomes()[0], HasSubstr("Connection refused"));
}

// Gloo itself waits five times as long as it is told.
TEST(GlooConnect, OneThatDoesNotConnectIsWaitedForAsLongAsTheCallerSays) {
  const double seconds = Seconds([] {
    Group group(2, 1, 1, test::kPortAbove);
    EXPECT_THAT(group.Outcomes()[0], HasSubstr("Connect timeout"));
  });
  EXPECT_GE(seconds, 0.9);
  EXPECT_LT(seconds, 4.9);
}

// Gloo tells messages of a kind apart by their order alone, and others may still wait for earlier ones.
TEST(GlooConnect, WhoIsAbortedPostsNothingMore) {
  Meeting meeting(2);
  const std::vector<std::shared_ptr<Abortion>> abortions = {std::make_shared<Abortion>(), std::make_shared<Abortion>()};
  std::vector<ContextPtr> contexts(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const auto exchange = [&meeting, r](std::string bytes) { return meeting.Exchange(r, std::move(bytes)); };
      const auto rank = static_cast<size_t>(r);
      contexts[rank] = Connect(r, 2, exchange, MakeTransport(true, ""), abortions[rank], kNeverReached);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string sent = "a message of another size", received(4, ' ');
  const auto out = contexts[0]->createUnboundBuffer(sent.data(), sent.size()),
             in = contexts[1]->createUnboundBuffer(received.data(), received.size());
  in->recv(0, 7, 0, received.size());
  abortions[0]->Abort();
  EXPECT_THROW(out->send(1, 7, 0, sent.size()), ::gloo::IoException);
  EXPECT_THROW(out->recv(1, 7, 0, sent.size()), ::gloo::IoException);
  EXPECT_THROW(out->recv(std::vector<int>{1}, 7, 0, sent.size()), ::gloo::IoException);
  abortions[1]->Abort();
  EXPECT_THROW(in->waitRecv(nullptr, std::chrono::seconds(60)), ::gloo::IoException);
}

// Whenever the generation breaks, each of them either has connected or knows.
TEST(GlooConnect, MayBeAbortedAtAnyMoment) {
  std::mt19937 random(TestSeed());
  const double whole = Seconds([] { Group(4, kNeverReached).Outcomes(); });
  for (int i = 0; i < 12; ++i) {
    Group group(4, kNeverReached);
    const double after = std::uniform_real_distribution<double>(0, whole)(random);
    std::this_thread::sleep_for(std::chrono::duration<double>(after));
    group.abortion().Abort();
    EXPECT_THAT(group.Outcomes(), Each(AnyOf(HasSubstr(kBroken), "connected"))) << after;
  }
}

}  // namespace connect_test
}  // namespace twofold::gloo
