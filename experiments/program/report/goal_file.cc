#include "experiments/program/report/goal_file.h"

#include "core/base/strings.h"

namespace twofold {

std::string GoalSchedule(const RankRecords& records) {
  std::string text;
  for (const report::RankRecord& record : records.kept()) {
    if (!record.has_goal()) continue;
    if (text.empty()) text = StrCat("num_ranks ", records.size(), "\n");
    StrAppend(&text, "\n", record.goal());
  }
  return text;
}

}  // namespace twofold
