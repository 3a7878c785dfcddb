#include "backends/replay/process_group.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

class Done final : public Work::State {
 public:
  explicit Done(int source) : source_(source) {}
  void Wait() override {}
  void WaitOn(Stream&) override {}
  bool Test() override { return true; }
  size_t WaitAny(std::span<Work::State* const>) override { return 0; }
  int source() const override { return source_; }

 private:
  const int source_;
};

}  // namespace

ProcessGroup::Issued ReplayProcessGroup::Issue(const Communication& c, CommunicationStats::Entry&) {
  const bool from_any = c.kind == Communication::kRecv && c.peer == kAnySource;
  Issued issued;
  staging_.For(c, device(), issued.workspace);
  issued.state = std::make_shared<Done>(from_any ? (rank() == 0 ? 1 : 0) : c.peer);
  return issued;
}

std::unique_ptr<ProcessGroup> ReplayProcessGroup::SplitEvenly(int size, Pattern pattern, std::string name) {
  TWOFOLD_CHECK_GE(size, 1);
  TWOFOLD_CHECK_EQ(this->size() % size, 0);
  if (size == 1) return Alone(std::move(name));
  const int groups = this->size() / size, consecutive = pattern == Pattern::kConsecutive;
  const int first = consecutive ? rank() / size * size : rank() % groups, stride = consecutive ? 1 : groups;
  std::vector<int> members;
  for (int i = 0; i < size; ++i) members.push_back(ranks()[static_cast<size_t>(first + i * stride)]);
  return std::make_unique<ReplayProcessGroup>(std::move(name), (rank() - first) / stride, std::move(members), device(),
                                              stats(), staging_.bytes(), ranks_differ_);
}

std::unique_ptr<ProcessGroup> ReplayProcessGroup::Partition(std::span<const std::vector<int>> groups,
                                                            std::string name) {
  for (const std::vector<int>& group : groups) {
    const auto me = std::find(group.begin(), group.end(), rank());
    if (me == group.end()) continue;
    if (group.size() == 1) break;
    std::vector<int> members;
    for (const int r : group) members.push_back(ranks()[static_cast<size_t>(r)]);
    return std::make_unique<ReplayProcessGroup>(std::move(name), static_cast<int>(me - group.begin()),
                                                std::move(members), device(), stats(), staging_.bytes(), ranks_differ_);
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
