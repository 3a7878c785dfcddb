// Whole files of shards: "model.safetensors" and "optimizer.safetensors", tensors under their own names, as other programs read them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/worker.h"

namespace twofold::checkpoint {

inline constexpr char kModelFile[] = "model.safetensors", kOptimizerFile[] = "optimizer.safetensors";

// Of the whole tensors in `shards`, whose files are in `folder`. Reads and writes some MiB at a time, checksums included; then
// deletes the files of the shards. For a task of `worker`: stops once that is given up.
absl::StatusOr<Contents> Assemble(Worker& worker, const std::string& folder, const Contents& shards);

}  // namespace twofold::checkpoint
