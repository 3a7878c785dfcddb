// Makes whole files from shards: "model.safetensors" and "optimizer.safetensors", with tensors under their own names,
// as other programs read them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/worker.h"

namespace twofold::checkpoint {

inline constexpr char kModelFile[] = "model.safetensors", kOptimizerFile[] = "optimizer.safetensors",
                      kReducerFile[] = "reducer.safetensors", kIslandsFile[] = "islands.safetensors";

// Writes the tensors of `shards`, whose files are in `folder`, to whole files. Reads and writes some MiB at a time,
// including checksums; then deletes the files of the shards. Runs in a task of `worker` and stops if the worker is
// given up. `has_values`: as in Metadata.
absl::StatusOr<Contents> Assemble(Worker& worker, Disk& disk, const std::string& folder, const Contents& shards,
                                  bool has_values);

}  // namespace twofold::checkpoint
