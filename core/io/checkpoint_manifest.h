// manifest.json: what a checkpoint holds, and where. It is written last, so its presence means that the checkpoint is
// complete.
//
//   {"format": "twofold checkpoint 2", "checksum": "<16 digits: of `content`, dumped without spaces>", "content": {
//      "sequence": 3, "step": 20, "updates": 20, ..., "scalars": {"validation.best": 2.5},
//      "files": [{"name": "rank-00000.safetensors", "bytes": 4096, "checksums": "<16 digits for each mebibyte>"}, ...],
//      "tensors": [{"name": "model.head.weight", "dtype": "F32", "shape": [4, 8],
//                   "pieces": [[0, "model.head.weight[0:16]", 0, 16], [1, "model.head.weight[16:32]", 16, 16]]},
//                  {"name": "model.row.weight", "dtype": "F32", "shape": [4, 8], "row": 8,
//                   "pieces": [[0, "model.row.weight[0:4 of 8]", 0, 16, 0, 4],
//                              [1, "model.row.weight[4:8 of 8]", 0, 16, 4, 4]]},
//                  {"name": "reducer.0.residual.0.bucket_0", "dtype": "F32", "shape": [40], "pieces": [...],
//                   "holds": [["head.weight", 0, 32, 0, 32, 0, 32, 0.5], ...]}, ...]}}
//
// Names: "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>",
// "reducer.<rank>.<state>.<stage and bucket>". A piece is [file, tensor in the file,
// first, count]: it holds these elements of the flattened tensor. For a tensor that ranks split by columns it is [file,
// tensor in the file, first, count, column, width]: elements of a band of rows of "row" elements
// (core/tensor/region.h). "holds" says what a reducer's flat tensor is about: [parameter, first element in the tensor,
// row, column, width, first, count, weight], where the five numbers in the middle are a region of the parameter. Format
// 1 had neither bands nor "mesh". If nothing was computed (device: EMULATED), the format is "twofold checkpoint without
// values 1": the same, with files of the same sizes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/io/block_file.h"
#include "core/tensor/region.h"
#include "core/tensor/tensor.h"

namespace twofold::checkpoint {

struct Piece {
  int64_t file = 0;    // index into Contents::files
  std::string tensor;  // its name in the file
  Region where;        // in the whole tensor
};

// Elements of a parameter that a flat tensor has values for.
struct Held {
  std::string parameter;
  int64_t at = 0;  // the first one's place in the flat tensor
  Region where;    // in the whole parameter
  // The sum over all ranks has each value times this weight (strategies/data_parallel/reducer.h).
  double weight = 1;
  friend bool operator==(const Held&, const Held&) = default;
};

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;  // of the whole tensor
  // With rows of the same length; ordered by column, then by first element. Together they cover each element exactly
  // once.
  std::vector<Piece> pieces;
  std::vector<Held> holds = {};  // of a reducer's flat tensor
  int64_t row() const { return pieces.empty() ? shape.numel() : pieces[0].where.row; }
};

// A list of files, and where in them the tensors are. Describes a checkpoint or the part that one rank wrote.
struct Contents {
  std::vector<FileSum> files;
  std::vector<Entry> tensors;
};

// The other state that a run needs to resume, and facts for error messages if a checkpoint does not fit.
struct Metadata {
  int64_t sequence = 0;  // number within the folder; the greatest is the latest
  int64_t step = 0;      // training steps done
  int64_t updates = 0;   // optimizer updates done
  uint64_t seed = 0;
  int64_t world_size = 0, global_batch = 0;
  std::string layout;                     // "NO_SHARD", ...
  std::string mesh;                       // "pp 2 dp 4 cp 1 tp 2 ep 1"
  std::string kind;                       // "SHARDED" or "FULL"
  std::string optimizer;                  // "adamw", ...
  std::string model;                      // spec.model as text
  bool has_values = true;                 // false: the run computed nothing, so the elements mean nothing
  std::map<std::string, double> scalars;  // other states: early stopping, loss scaling
};

struct Manifest {
  Metadata metadata;
  Contents contents;
};

inline constexpr char kManifestFile[] = "manifest.json";

std::string ManifestText(const Manifest& manifest);
// Accepts only what ManifestText writes. Refuses another format, a wrong checksum, missing or out-of-range fields, and
// pieces that omit or repeat elements; the error names `path` and the field or tensor. Memory use is proportional to
// `text`.
absl::StatusOr<Manifest> ParseManifest(const std::string& path, const std::string& text);
// Reads the manifest from a checkpoint's folder.
absl::StatusOr<std::string> ReadManifestText(const std::string& folder, Disk& disk = RealDisk());
// Every file must exist with the size that it was saved with.
absl::Status CheckFiles(const std::string& folder, const Contents& contents, Disk& disk = RealDisk());

// The same for a part, whose tensors need not be complete.
std::string PartText(const Contents& part);
absl::StatusOr<Contents> ParsePart(const std::string& path, const std::string& text);
// Merges all parts into one list. Refuses parts that disagree about a tensor, or that omit or repeat elements.
absl::StatusOr<Contents> Merge(const std::string& where, std::vector<Contents> parts);

}  // namespace twofold::checkpoint
