// Loads a checkpoint into a run: of any number of ranks, under any layout. Each rank reads what it holds and no more.
//
// Element types need not be those that were saved. Floating-point numbers are widened, or rounded once; where the
// optimizer's master copy of a narrow parameter was saved, it is what a wider parameter is made from, and a run that keeps
// masters takes them from wide parameters.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/optim/optimizer.h"
#include "core/proto/spec.pb.h"
#include "core/run/rank_context.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/checkpoint_manifest.h"
#include "core/io/safetensors.h"
#include "strategies/data_parallel/layout.h"

namespace twofold::checkpoint {

// Reads elements of tensors. Files are opened as they are needed.
class Reader {
 public:
  // `manifest` must outlive it.
  Reader(std::string folder, const Manifest& manifest);
  const Entry* Find(std::string_view name) const;  // null: not there
  // Elements [first, first + count) of a band of the tensor `name`, as `dtype`, into `out`. Refuses, naming file and tensor: one
  // that is not there, has another shape, or whose file holds something else than the manifest says.
  absl::Status Read(std::string_view name, const Shape& shape, DType dtype, const Band& band, int64_t first, int64_t count, std::span<std::byte> out);
  // Likewise of the flattened tensor.
  absl::Status Read(std::string_view name, const Shape& shape, DType dtype, int64_t first, int64_t count, std::span<std::byte> out) {
    return Read(name, shape, dtype, Band::Whole(shape.numel()), first, count, out);
  }
  const std::string& folder() const { return folder_; }

 private:
  static constexpr size_t kMostOpen = 8;  // files of a process are few, and a checkpoint has one for each rank that saved it
  struct File {
    SafetensorsHead head;
    std::optional<CheckedFile> bytes;  // none: not open now
  };
  absl::StatusOr<File*> Open(int64_t index);
  absl::StatusOr<int64_t> Locate(const Entry& entry, const Piece& piece, File& file) const;  // byte of its first element
  absl::Status ReadStored(const Entry& entry, const Band& band, int64_t first, std::span<std::byte> out);
  absl::Status ReadPieces(const Entry& entry, std::span<const Piece> pieces, int64_t first, std::span<std::byte> out);

  const std::string folder_;
  const Manifest& manifest_;
  std::map<std::string, const Entry*, std::less<>> entries_;
  std::map<int64_t, std::unique_ptr<File>> files_;
  std::deque<File*> open_;  // the longest first
};

// What a checkpoint says of a run of `spec`, whatever its step.
Metadata MetadataOf(const spec::Spec& spec);

// Whether a run of `spec` can go on from it: the same parameters and buffers with the same shapes, the optimizer's states, and
// steps left to do. Every error names `path`, the tensor or field, what it is there and here.
absl::Status CheckFits(const std::string& path, const Manifest& manifest, const spec::Spec& spec);

// What a reader of the report should know: what is not as it was when the checkpoint was saved.
std::vector<std::string> Differences(const Manifest& manifest, const spec::Spec& spec);

// Fills this rank's slices, the optimizer's states (attached to them), and buffers. Then publishes the slices. Collective over
// the ranks of the layout. Throws RankFailure. Where no data exists nothing is read.
void Load(RankContext& rank, const Opened& opened, ParameterLayout& layout, optim::Optimizer& optimizer);

}  // namespace twofold::checkpoint
