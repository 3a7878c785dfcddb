// One member of an elastic run, from one generation to the next, and what several of them do at once.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/control/client.h"
#include "core/base/strings.h"

namespace twofold::control {

inline std::string Text(const absl::Status& status) {
  return StrCat(status.code(), " ", std::string(status.message()));
}

class ElasticRank {
 public:
  ElasticRank(Client& client, int world_size, int rank) : client_(client) {
    state_ = std::make_unique<host::RunState>(world_size, 60);
    rank_ = rank;
    Begin(world_size);
  }
  explicit ElasticRank(Client& newcomer) : client_(newcomer) {
    Take(*client_.Reform(1, 60));
    Begin(static_cast<int>(generation_.members.size()));
  }
  // Blocks until the generation is broken.
  std::string AwaitBroken() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !why_.empty(); }));
    EXPECT_TRUE(state_->ending());
    return why_;
  }
  void Reform(int least = 1, double patience_s = 60) {
    absl::StatusOr<Generation> next = client_.Reform(least, patience_s);
    ASSERT_TRUE(next.ok()) << Text(next.status());
    why_.clear();
    Take(*next);
    client_.Enter(state_.get());
  }
  const Generation& generation() const { return generation_; }
  int rank() const { return rank_; }
  host::RunState& state() { return *state_; }
  Client& client() { return client_; }

 private:
  void Take(Generation generation) {
    generation_ = std::move(generation);
    const auto& members = generation_.members;
    rank_ = static_cast<int>(std::find(members.begin(), members.end(), client_.member()) - members.begin());
    if (state_ != nullptr) before_.push_back(std::move(state_));
    state_ = std::make_unique<host::RunState>(1 + *std::max_element(members.begin(), members.end()), 60);
  }
  void Begin(int world_size) {
    client_.Begin(
        world_size, 60, state_.get(), [] {},
        [this](const Broken& broken) {
          std::lock_guard lock(mutex_);
          why_ = broken.message();
          changed_.notify_all();
        });
  }

  Client& client_;
  Generation generation_;
  int rank_ = 0;
  std::unique_ptr<host::RunState> state_;
  std::vector<std::unique_ptr<host::RunState>> before_;  // of earlier generations: the client may still look at them
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string why_;
};

inline void Together(const std::vector<std::function<void()>>& each) {
  std::vector<std::thread> threads;
  for (const auto& one : each) threads.emplace_back(one);
  for (std::thread& t : threads) t.join();
}

}  // namespace twofold::control
