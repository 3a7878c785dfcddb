// manifest.json: what a checkpoint holds, and where. It is written last, so where one stands the checkpoint is whole.
//
//   {"format": "twofold checkpoint 2", "checksum": "<16 digits: of `content`, dumped without spaces>", "content": {
//      "sequence": 3, "step": 20, "updates": 20, ..., "scalars": {"validation.best": 2.5},
//      "files": [{"name": "rank-00000.safetensors", "bytes": 4096, "checksums": "<16 digits for each mebibyte>"}, ...],
//      "tensors": [{"name": "model.head.weight", "dtype": "F32", "shape": [4, 8],
//                   "pieces": [[0, "model.head.weight[0:16]", 0, 16], [1, "model.head.weight[16:32]", 16, 16]]},
//                  {"name": "model.row.weight", "dtype": "F32", "shape": [4, 8], "row": 8,
//                   "pieces": [[0, "model.row.weight[0:4 of 8]", 0, 16, 0, 4], [1, "model.row.weight[4:8 of 8]", 0, 16, 4, 4]]}, ...]}}
//
// Names: "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>". A piece is [file, tensor in it, first, count]:
// which elements of the flattened tensor stand there. Of a tensor that ranks cut by its columns it is [file, tensor in it, first,
// count, column, width], elements of a band (band.h) of rows of "row" elements. Format 1 had no bands, and no "mesh".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "core/io/band.h"
#include "core/io/block_file.h"

namespace twofold::checkpoint {

struct Piece {
  int64_t file = 0;    // index into Contents::files
  std::string tensor;  // its name there
  int64_t first = 0, count = 0;
  int64_t column = 0, width = 0;  // of the band that first counts in; width 0: whole rows
};

struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                // of the whole
  std::vector<Piece> pieces;  // in order of `column`, then `first`; together the whole, each element once
  int64_t row = 0;            // elements in a row of its bands; 0: all of it is one row
  int64_t row_elements() const { return row > 0 ? row : shape.numel(); }
  Band BandOf(const Piece& piece) const { return {row_elements(), piece.column, piece.width > 0 ? piece.width : row_elements()}; }
};

// Files, and where in them the tensors are: of a checkpoint, or of the part that one rank wrote.
struct Contents {
  std::vector<FileSum> files;
  std::vector<Entry> tensors;
};

// What else a run needs to go on, and what a reader is told where a checkpoint does not fit.
struct Metadata {
  int64_t sequence = 0;  // of the checkpoints in one folder; the greatest is the latest
  int64_t step = 0;      // training steps done
  int64_t updates = 0;   // of the optimizer
  uint64_t seed = 0;
  int64_t world_size = 0, global_batch = 0;
  std::string layout;     // "NO_SHARD", ...
  std::string mesh;       // "pp 2 dp 4 cp 1 tp 2 ep 1"
  std::string kind;       // "SHARDED" or "FULL"
  std::string optimizer;  // "adamw", ...
  std::string model;      // spec.model as text
  std::map<std::string, double> scalars;  // whatever else has a state: early stopping, loss scaling
};

struct Manifest {
  Metadata metadata;
  Contents contents;
};

inline constexpr char kManifestFile[] = "manifest.json";

std::string ManifestText(const Manifest& manifest);
// Refuses, naming `path` and the field or tensor, whatever ManifestText does not write: another format, a checksum that is
// another, fields that are missing or out of range, pieces that leave out or repeat elements. Memory is in proportion to `text`.
absl::StatusOr<Manifest> ParseManifest(const std::string& path, const std::string& text);
// From a checkpoint's folder.
absl::StatusOr<std::string> ReadManifestText(const std::string& folder);
// Every file must be there with the size it was saved with.
absl::Status CheckFiles(const std::string& folder, const Contents& contents);

// Likewise of a part, where tensors need not be whole.
std::string PartText(const Contents& part);
absl::StatusOr<Contents> ParsePart(const std::string& path, const std::string& text);
// One list of all parts; refuses parts that differ about a tensor, or that leave out or repeat elements.
absl::StatusOr<Contents> Merge(const std::string& where, std::vector<Contents> parts);

}  // namespace twofold::checkpoint
