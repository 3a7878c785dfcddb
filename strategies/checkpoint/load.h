// Loads a checkpoint into a run with any number of ranks and any layout. Each rank reads only what it holds.
//
// Element types need not be those that were saved. Floating-point numbers are widened, or rounded once. If the
// optimizer's master copy of a low-precision parameter was saved, a wider parameter is loaded from it. A run that keeps
// master copies loads them from the parameters if no master copies were saved.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/safetensors.h"
#include "core/optim/optimizer.h"
#include "core/run/rank_context.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/local_update/local_update.h"
#include "strategies/models/model.h"

namespace twofold::checkpoint {

// Reads elements of tensors. Files are opened as they are needed.
class Reader {
 public:
  // `manifest` and `disk` must outlive it.
  Reader(std::string folder, const Manifest& manifest, Disk& disk = RealDisk());
  const Entry* Find(std::string_view name) const;  // null if there is no such tensor
  // Reads the elements `where` of the tensor `name` into `out`, converted to `dtype`. Fails, naming file and tensor, if
  // the tensor is missing, has another shape, or its file does not hold what the manifest says.
  absl::Status Read(std::string_view name, const Shape& shape, DType dtype, const Region& where,
                    std::span<std::byte> out);
  const std::string& folder() const { return folder_; }

 private:
  // A process may open only a limited number of files, and a checkpoint has one for each rank that saved it.
  static constexpr size_t kMostOpen = 8;
  struct File {
    SafetensorsHead head;
    std::optional<CheckedFile> bytes;  // set while the file is open
  };
  absl::StatusOr<File*> Open(int64_t index);
  absl::StatusOr<int64_t> Locate(const Entry& entry, const Piece& piece, File& file) const;  // byte offset of the piece
  absl::Status ReadStored(const Entry& entry, const Region& where, std::span<std::byte> out);
  absl::Status ReadPieces(const Entry& entry, std::span<const Piece> pieces, int64_t first, std::span<std::byte> out);

  const std::string folder_;
  const Manifest& manifest_;
  Disk& disk_;
  std::map<std::string, const Entry*, std::less<>> entries_;
  std::map<int64_t, std::unique_ptr<File>> files_;
  std::deque<File*> open_;  // in the order in which they were opened
};

// The run that resumes, as far as a checkpoint must fit it.
struct ResumingRun {
  int64_t steps = 0;  // of the whole training
  std::shared_ptr<const Model> model;
  DType parameter = DType::kF32;
  std::function<std::unique_ptr<optim::Optimizer>()> make_optimizer;
  Metadata metadata;        // of a checkpoint of this run, without what changes from step to step
  bool reads_none = false;  // a simulation without data: it may resume from a checkpoint with values or without
};

// Checks that `run` can resume from the checkpoint at `path`: it has the same parameters and buffers with the same
// shapes, the optimizer's states, values if the run computes and none if it does not, and steps are left to do. Every
// error names `path`, the tensor or field, and its value in the checkpoint and in the run.
absl::Status CheckFits(const std::string& path, const Manifest& manifest, const ResumingRun& run);

// Notes for the report: what differs from when the checkpoint was saved.
std::vector<std::string> Differences(const Manifest& manifest, const ResumingRun& run);

// In Metadata::scalars: the islands that each have parameters of their own (local_update.h). Absent: none has.
inline constexpr char kIslandsScalar[] = "local_update.islands";

// Fills this rank's slices, the states of the optimizer attached to them, and the buffers. Then publishes the slices.
// `local_update`: null if there is none. If it does not fit the checkpoint's, all islands start from the checkpoint's
// common values, which a note says. Returns the bytes of what this rank has filled. Collective over all ranks. If any
// of them cannot read its part, all get an error, and what they hold is no state: the ranks concerned learn why, the
// others get CANCELLED. Throws RankFailure. In simulations without data nothing is read; it takes the time that it
// would take.
absl::StatusOr<Bytes> Load(RankContext& rank, const Opened& opened, ParameterLayout& layout,
                           optim::Optimizer& optimizer, LocalUpdate* local_update = nullptr);
// The same where there is no file, because a simulation without data has written none.
Bytes LoadNothing(RankContext& rank, ParameterLayout& layout, const optim::Optimizer& optimizer);

}  // namespace twofold::checkpoint
