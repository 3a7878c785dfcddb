// The records of a run's ranks, each stored once: ranks represented by one rank share its record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/proto/report.pb.h"

namespace twofold {

// Up to this many ranks, each has a row in report.json and, if traced, a time line in the trace's files. With more
// ranks, ranks that share a record share these too.
inline constexpr size_t kListedRanks = 1024;

class RankRecords {
 public:
  RankRecords() = default;
  // Every rank has a record of its own, in rank order; ranks with a time line are traced.
  RankRecords(std::vector<report::RankRecord> of_each);

  // For filling: add a record, then its ranks. Ranks must be added in ascending order overall. `traced`: its time line
  // is wanted.
  size_t Keep(report::RankRecord record);
  void Add(int64_t rank, size_t kept, bool traced);

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }  // number of ranks
  struct Of {
    int64_t rank;
    const report::RankRecord& record;  // its field `rank` is the rank that left it
  };
  Of operator[](size_t i) const { return At(places_[i]); }
  size_t which(size_t i) const { return static_cast<size_t>(places_[i].kept); }  // index into `kept`
  const std::vector<report::RankRecord>& kept() const { return kept_; }
  // The record that speaks for the run: the lowest rank's. In an elastic run, the lowest rank's that did the last step,
  // if any did.
  const report::RankRecord& lead() const;
  std::vector<Of> traced() const;  // by rank
  // number of ranks
  size_t SharedBy(const report::RankRecord& kept) const { return ranks_of_[static_cast<size_t>(&kept - kept_.data())]; }

 private:
  struct Place {
    int32_t rank, kept;
  };
  Of At(Place place) const { return {place.rank, kept_[static_cast<size_t>(place.kept)]}; }

  std::vector<report::RankRecord> kept_;
  std::vector<size_t> ranks_of_;  // number of ranks, by record
  std::vector<Place> places_, traced_;
};

}  // namespace twofold
