// A simulated communication in flight, as its rank's program sees it.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "core/comm/work.h"

namespace twofold {

class SimulatedWork : public Work::State {
 public:
  // `done` is when this rank's part ends; `what` tells what a rank that waits for it waits for.
  SimulatedWork(SimulatedRank& rank, sim::TimePointPtr done, std::function<std::string()> what)
      : rank_(rank), done_(std::move(done)), what_(std::move(what)) {}

  void Wait() override;
  void WaitOn(Stream& stream) override;
  bool Test() override;
  size_t WaitAny(std::span<Work::State* const> states) override;
  int source() const override { return messages_ == nullptr ? -1 : messages_->source; }

  void SetMessages(std::shared_ptr<SimulatedGroup::Pending> messages) { messages_ = std::move(messages); }
  // When the ranks of a collective met, set before it is done. A message is not the core's work: never.
  const std::shared_ptr<double>& started() const { return started_; }

 private:
  void PayForCore();

  SimulatedRank& rank_;
  sim::TimePointPtr done_;
  std::function<std::string()> what_;
  std::shared_ptr<SimulatedGroup::Pending> messages_;
  std::shared_ptr<double> started_ = std::make_shared<double>(std::numeric_limits<double>::infinity());
  bool paid_ = false;
};

}  // namespace twofold
