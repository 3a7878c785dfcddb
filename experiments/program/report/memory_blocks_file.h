// What traced ranks' memory consisted of at the samples of memory.csv, as a file: a report::MemoryBlocksFile as JSON,
// compressed (gzip).
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

inline constexpr char kMemoryBlocks[] = "memory_blocks.json.gz";

// "": no rank kept its blocks.
std::string MemoryBlocksFileBytes(const RankRecords& records);

// By rank; none if there is no such file. Errors name the file and the place.
absl::StatusOr<std::map<int, report::MemoryBlocks>> ReadMemoryBlocks(const std::string& path);

// Whether columns have equal lengths, owners and segments are in their lists, and blocks are at samples of `samples`.
absl::Status CheckMemoryBlocks(const report::MemoryBlocks& blocks, int64_t samples);

}  // namespace twofold
