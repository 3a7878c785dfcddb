// Checkpoints that a run has left, as a storm looks at them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/io/checkpoint_folder.h"

namespace twofold::storm {

// Reads every tensor of a checkpoint as a run with one rank would, so that every block is held against its checksum.
absl::Status ReadAll(const std::string& path);
// Those in the folder with greater sequence numbers than `sequence_before`, latest first.
std::vector<checkpoint::Found> CheckpointsOf(const std::string& folder, int64_t sequence_before);

}  // namespace twofold::storm
