// A simulated communication in flight, as the rank's program sees it.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "core/comm/work.h"

namespace twofold {

class SimulatedWork : public Work::State {
 public:
  // `call.done` is when this rank's part ends. `stream` is the group's stream, as named in traces.
  SimulatedWork(SimulatedRank& rank, InFlightPtr call, std::string_view stream)
      : rank_(rank), call_(std::move(call)), stream_(stream) {}

  void Wait() override;
  void WaitOn(Stream& stream) override;
  bool Test() override;
  size_t WaitAny(std::span<Work::State* const> states) override;
  int source() const override { return messages_ == nullptr ? -1 : messages_->source; }

  void SetMessages(std::shared_ptr<SimulatedGroup::Pending> messages) { messages_ = std::move(messages); }
  void SetBeside(uint64_t number) { beside_ = number; }
  // Ranks that this one stands for may do without it (Device::Briefly).
  void SetBrief();
  // When the ranks of a collective met; set before it is done. For a message: infinity, since a message takes no time
  // of the core.
  const std::shared_ptr<double>& started() const { return started_; }

 private:
  void PayForCore();
  const sim::TimePointPtr& done() const { return call_->done; }
  std::string What() const { return rank_.calls().WaitingFor(*call_); }

  SimulatedRank& rank_;
  const InFlightPtr call_;
  const std::string_view stream_;
  std::shared_ptr<SimulatedGroup::Pending> messages_;
  std::shared_ptr<double> started_ = std::make_shared<double>(std::numeric_limits<double>::infinity());
  bool paid_ = false, brief_ = false;
  uint64_t beside_ = 0;  // its number in SimulatedRank::communicating(); 0: none
};

}  // namespace twofold
