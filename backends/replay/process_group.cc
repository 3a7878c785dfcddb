#include "backends/replay/process_group.h"

#include <algorithm>
#include <utility>

#include "backends/replay/device.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

class Done final : public Work::State {
 public:
  Done(int source, Event event, ReplayTimes* times)
      : source_(source), event_(std::move(event)), times_(times), number_(times == nullptr ? 0 : times->Number()) {}
  void Wait() override {
    if (number_ != 0) times_->Waits(number_);
    event_.Wait();
  }
  void WaitOn(Stream& stream) override {
    if (number_ != 0) times_->Waits(number_);
    stream.WaitFor(event_);
  }
  bool Test() override { return true; }
  size_t WaitAny(std::span<Work::State* const>) override { return 0; }
  int source() const override { return source_; }

 private:
  const int source_;
  const Event event_;
  ReplayTimes* const times_;
  const uint64_t number_;
};

}  // namespace

ProcessGroup::Issued ReplayProcessGroup::Issue(const Communication& c, CommunicationStats::Entry&) {
  const bool from_any = c.kind == Communication::kRecv && c.peer == kAnySource;
  Issued issued;
  staging_.For(c, device(), issued.workspace);
  Event done;
  if (times_ != nullptr) done = ReplayDevice::At(*times_, times_->Send(line_, times_->Communicate(ranks(), rank(), c)));
  issued.state = std::make_shared<Done>(from_any ? (rank() == 0 ? 1 : 0) : c.peer, std::move(done), times_);
  return issued;
}

void ReplayProcessGroup::RanksDiffer(std::span<const int> kinds, const std::string&) {
  for (const std::vector<int>& group : *alike_) {
    TWOFOLD_CHECK_EQ(group.size(), kinds.size());
    for (size_t i = 0; i < group.size(); ++i) kinds_.Note(group[i], kinds[i]);
  }
}

void ReplayProcessGroup::RanksDifferOver(ProcessGroup&, std::span<const int> kinds, const std::string& why, bool) {
  if (staging_.bytes().value() > 0) RanksDiffer(kinds, why);
}

std::unique_ptr<ProcessGroup> ReplayProcessGroup::SplitEvenly(int size, Pattern pattern, std::string name) {
  TWOFOLD_CHECK_GE(size, 1);
  TWOFOLD_CHECK_EQ(this->size() % size, 0);
  if (size == 1) return Alone(std::move(name));
  GroupList groups(static_cast<size_t>(this->size() / size));
  for (int r = 0; r < this->size(); ++r) {
    groups[pattern == Pattern::kConsecutive ? static_cast<size_t>(r / size) : static_cast<size_t>(r) % groups.size()]
        .push_back(r);
  }
  return Partition(groups, std::move(name));
}

std::unique_ptr<ProcessGroup> ReplayProcessGroup::Partition(std::span<const std::vector<int>> groups,
                                                            std::string name) {
  for (const std::vector<int>& group : groups) {
    const auto me = std::find(group.begin(), group.end(), rank());
    if (me == group.end()) continue;
    if (group.size() == 1) break;
    auto alike = std::make_shared<GroupList>();
    for (const std::vector<int>& whole : *alike_) {
      for (const std::vector<int>& places : groups) {
        if (places.size() != group.size()) continue;
        std::vector<int>& members = alike->emplace_back();
        for (const int place : places) members.push_back(whole[static_cast<size_t>(place)]);
      }
    }
    std::vector<int> members;
    for (const int r : group) members.push_back(ranks()[static_cast<size_t>(r)]);
    return std::make_unique<ReplayProcessGroup>(std::move(name), static_cast<int>(me - group.begin()),
                                                std::move(members), device(), stats(), staging_.bytes(),
                                                std::move(alike), kinds_, times_);
  }
  return Alone(std::move(name));
}

std::unique_ptr<ProcessGroup> ReplayProcessGroup::Split(int color, int, std::string name) {
  if (color < 0) return nullptr;
  const int me = ranks()[static_cast<size_t>(rank())];
  throw RankFailure(RankFailure::Kind::kOther, me,
                    StrCat("rank ", me, ": split of group ", this->name(), " into \"", name,
                           "\": a replay of one rank does not know which other ranks have color ", color));
}

}  // namespace twofold
