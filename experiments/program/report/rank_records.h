// The records that the ranks of a run left, each kept once: ranks that one rank stood for share its record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/proto/report.pb.h"

namespace twofold {

// Up to so many ranks, each has a row in report.json and, where it is to be traced, a time line in the trace's files. Above, ranks
// that share a record share these, too.
inline constexpr size_t kListedRanks = 1024;

class RankRecords {
 public:
  RankRecords() = default;
  // Each rank's own, by rank; those with a time line are traced.
  RankRecords(std::vector<report::RankRecord> of_each);

  // To be filled: a record, and then its ranks; all ranks ascend. `traced`: its time line is wanted.
  size_t Keep(report::RankRecord record);
  void Add(int64_t rank, size_t kept, bool traced);

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }  // ranks
  struct Of {
    int64_t rank;
    const report::RankRecord& record;  // whose own `rank` is that of the one which left it
  };
  Of operator[](size_t i) const { return At(places_[i]); }
  size_t which(size_t i) const { return static_cast<size_t>(places_[i].kept); }  // of `kept`
  const std::vector<report::RankRecord>& kept() const { return kept_; }
  const report::RankRecord& first() const { return (*this)[0].record; }  // the lowest rank's
  std::vector<Of> traced() const;                                        // by rank
  size_t SharedBy(const report::RankRecord& kept) const { return ranks_of_[static_cast<size_t>(&kept - kept_.data())]; }  // so many ranks

 private:
  struct Place { int32_t rank, kept; };
  Of At(Place place) const { return {place.rank, kept_[static_cast<size_t>(place.kept)]}; }

  std::vector<report::RankRecord> kept_;
  std::vector<size_t> ranks_of_;  // by record: how many
  std::vector<Place> places_, traced_;
};

}  // namespace twofold
