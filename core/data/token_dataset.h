// Token files as llm.c's data scripts write them for GPT-2: a header of 256 int32 (magic 20240520, version 1,
// number of tokens, zeros), then that many uint16 tokens; little-endian.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"

namespace twofold {

// Sample i: the input is tokens [i * sequence, (i + 1) * sequence), the target the same window one token later; both
// I32 [sequence]. The file is memory-mapped and must not shrink while the dataset lives. `vocab`: every token must be
// below it; 0: any token is allowed. Errors name the file, the byte offset, the value found and what would be right.
absl::StatusOr<std::unique_ptr<Dataset>> MakeTokenDataset(const std::string& path, int64_t sequence, int64_t vocab = 0);

}  // namespace twofold
