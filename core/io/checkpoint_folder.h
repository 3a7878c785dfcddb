// A folder of checkpoints. Each checkpoint is a folder of its own, "<sequence>-step-<step>", e.g. "000003-step-60". The
// one with the greatest sequence number is the latest, whatever its step (a run may resume from an earlier one). Only
// complete checkpoints have such a name. While one is written or deleted, its name ends in ".partial". A rename
// completes a new one and precedes a deletion. So a kill at any moment leaves every complete checkpoint intact. There
// is no pointer to the latest checkpoint that could be corrupted: readers list the folder.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/checkpoint_manifest.h"

namespace twofold::checkpoint {

struct Found {
  int64_t sequence = 0, step = 0;
  std::string path;  // of its folder
};

// Folders named like checkpoints, latest first. Their contents are not checked. Empty if `folder` does not exist.
std::vector<Found> List(const std::string& folder);

// A run's exclusive right to write to a folder, which is created if it does not exist. The claim ends with the object
// or the process.
class Claim {
 public:
  // FAILED_PRECONDITION: another run writes to this folder.
  static absl::StatusOr<Claim> Make(const std::string& folder, Disk& disk = RealDisk());
  Claim(Claim&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  ~Claim();

 private:
  explicit Claim(int folder) : folder_(folder) {}
  int folder_;
};

// Deletes incomplete checkpoints of killed runs and creates "<name>.partial" for a new checkpoint after `step` steps.
// The caller must have claimed the folder.
struct Begun {
  int64_t sequence = 0;
  std::string partial, final;  // paths: while it is written, and once it is complete
};
absl::StatusOr<Begun> Begin(const std::string& folder, int64_t step, Disk& disk = RealDisk());
Begun Named(const std::string& folder, int64_t sequence, int64_t step);  // the same paths, for other ranks

// Call when all files of `begun` are on disk. Writes the manifest and renames the folder. After this returns, the
// checkpoint survives a kill or a power failure. Then deletes the oldest checkpoints beyond `keep_last`; 0: keeps all.
absl::Status Commit(const std::string& folder, const Begun& begun, const Manifest& manifest, int64_t keep_last,
                    Disk& disk = RealDisk());

// Opens the checkpoint at `path`. If `path` is a folder of checkpoints, opens the latest good one; bad ones are skipped
// and listed in `passed_over`. Fails if there is no checkpoint or no good one.
struct Opened {
  std::string path;
  Manifest manifest;
  std::string text;                      // of its manifest.json
  std::vector<std::string> passed_over;  // skipped checkpoints, with reasons
  std::string origin;                    // if another rank has opened it: which checkpoint and where; see agree.h
};
absl::StatusOr<Opened> Open(const std::string& path, Disk& disk = RealDisk());

}  // namespace twofold::checkpoint
