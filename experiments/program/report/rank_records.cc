#include "experiments/program/report/rank_records.h"

#include <utility>

#include "core/base/check.h"

namespace twofold {

RankRecords::RankRecords(std::vector<report::RankRecord> of_each) {
  kept_.reserve(of_each.size());
  for (report::RankRecord& record : of_each) {
    const int64_t rank = record.rank();
    const bool traced = !record.spans().empty() || !record.samples().empty();
    Add(rank, Keep(std::move(record)), traced);
  }
}

size_t RankRecords::Keep(report::RankRecord record) {
  kept_.push_back(std::move(record));
  ranks_of_.push_back(0);
  return kept_.size() - 1;
}

void RankRecords::Add(int64_t rank, size_t kept, bool traced) {
  TWOFOLD_CHECK_LT(kept, kept_.size());
  const Place place{static_cast<int32_t>(rank), static_cast<int32_t>(kept)};
  places_.push_back(place);
  if (traced) traced_.push_back(place);
  ++ranks_of_[kept];
}

const report::RankRecord& RankRecords::lead() const {
  for (const Place place : places_) {
    const report::RankRecord& record = At(place).record;
    if (record.complete()) return record;
  }
  return At(places_[0]).record;
}

std::vector<RankRecords::Of> RankRecords::traced() const {
  std::vector<Of> all;
  for (const Place place : traced_) all.push_back(At(place));
  return all;
}

}  // namespace twofold
