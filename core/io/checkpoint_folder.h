// A folder of checkpoints. Each is a folder of its own, "<sequence>-step-<step>", e.g. "000003-step-60"; the greatest sequence is
// the latest, whatever the steps say (a run may go on from an earlier one). Whole ones alone bear such a name: what is being written,
// or being deleted, ends in ".partial", and a rename makes it the one or the other. So a kill at any moment leaves every whole
// checkpoint as it is, and nothing points to the latest that could be torn: it is found by looking.
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

// What is named like a checkpoint, latest first; not looked into. Empty where `folder` is not there.
std::vector<Found> List(const std::string& folder);

// A run's right to write to a folder, which it makes where it is not there. It ends with the object, or with the process.
class Claim {
 public:
  static absl::StatusOr<Claim> Make(const std::string& folder);  // refuses a folder that another run writes to
  Claim(Claim&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}
  ~Claim();

 private:
  explicit Claim(int folder) : folder_(folder) {}
  int folder_;
};

// Deletes what killed runs left half-written, and makes "<name>.partial" for a new checkpoint after `step` steps. Whoever calls it
// has claimed the folder.
struct Begun {
  int64_t sequence = 0;
  std::string partial, final;  // paths: now, and once it is whole
};
absl::StatusOr<Begun> Begin(const std::string& folder, int64_t step);
Begun Named(const std::string& folder, int64_t sequence, int64_t step);  // the same paths, for other ranks

// All files of `begun` are on the disk: writes the manifest and gives the folder its name. From when this returns a kill, or a
// power failure, leaves the checkpoint. Then deletes the oldest ones beyond `keep_last`; 0: none.
absl::Status Commit(const std::string& folder, const Begun& begun, const Manifest& manifest, int64_t keep_last);

// The checkpoint that `path` is, or the latest good one in the folder that it is. Refuses: nothing there, none that is good.
// Of several, bad ones are passed over and named in `passed_over`.
struct Opened {
  std::string path;
  Manifest manifest;
  std::string text;                      // of its manifest.json
  std::vector<std::string> passed_over;  // why
  std::string origin;                    // where another rank has opened it: which one, and where; see agree.h
};
absl::StatusOr<Opened> Open(const std::string& path);

}  // namespace twofold::checkpoint
