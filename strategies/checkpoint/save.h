// Saves a training run so that it can go on: parameters, buffers, optimizer state, and what manifest.h lists. Where training
// stands in its data and random numbers follows from seed and step.
//
// SHARDED: every rank writes what it holds to "rank-<n>.safetensors": of what several ranks of the mesh hold, each an equal share.
// FULL: whole tensors under their own names, in "model.safetensors" and "optimizer.safetensors". Where every rank holds the whole
// model, rank 0 writes them; else every rank writes its share as if it were SHARDED, and rank 0 makes whole files of those, in
// its own thread and 4 MiB at a time (assemble.h): no rank ever has more in memory than its own, and none waits for messages. All
// ranks must see the same folder.
//
// A save is: rank 0 makes a folder aside (folder.h); files are written and brought to the disk, each by a thread of its rank's own;
// rank 0, once all are there, writes the manifest and renames. Asynchronously, ranks go on when they have copied what they
// write to the host's memory, and ranks meet again in the next save or in Finish. A wait for others'
// files is a wait for files: it costs training no message.
//
// Where no data exists nothing is written; messages and memory are those of a run that writes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/run/rank_context.h"
#include "core/io/checkpoint_folder.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/checkpoint/stream.h"
#include "core/io/worker.h"

namespace twofold::checkpoint {

struct SaveOptions {
  std::string folder;  // of all checkpoints of the run
  bool full = false;
  bool asynchronous = false;
  int64_t keep_last = 2;  // 0: all
};

struct Saved {
  int64_t step = 0;
  std::string path;
  Bytes bytes;         // of all its files
  Seconds stood_still; // training did
  Seconds seconds;     // until it was whole; of an asynchronous one, until a step ended and found it so
};

// One rank's part; used from its thread. Everything handed in outlives it. Calls are collective over all ranks.
class Saver {
 public:
  // `metadata` are the run's; step, updates, sequence and scalars are filled in by Save. `mesh` is of all ranks.
  Saver(RankContext& rank, DeviceMesh& mesh, ParameterLayout& layout, const optim::Optimizer& optimizer, SaveOptions options,
        Metadata metadata);
  ~Saver();  // without Finish: what is not whole yet is given up

  // After `step` training steps. First waits for an asynchronous save before it. Throws RankFailure: what could not be
  // written and why, here or of the save before; OutOfMemory; what communication throws.
  void Save(int64_t step, std::map<std::string, double> scalars);
  // Waits for an asynchronous save. Throws likewise.
  void Finish();
  // On rank 0, checkpoints that became whole since the last call. Not collective; throws if writing failed.
  std::vector<Saved> Poll();

  bool writes() const { return writes_; }

 private:
  struct Running;  // a save, from its begin until all ranks have met again
  void Begin(int64_t step);
  void SaveShards();
  void SaveWhole();
  std::vector<LocalPiece> OwnShare();
  void WriteFile(const std::string& name, std::vector<LocalPiece> held, bool prefixed);
  void PostPart(const std::string& name);
  void PostCommit(std::vector<std::string> parts, std::map<std::string, double> scalars);
  void Complete();
  void NoteWhole();
  void ThrowIf(const absl::Status& status) const;

  RankContext& rank_;
  DeviceMesh& mesh_;
  ParameterLayout& layout_;
  const optim::Optimizer& optimizer_;
  const SaveOptions options_;
  const Metadata metadata_;
  const bool writes_;
  const bool whole_;  // every rank holds the whole model
  std::optional<Claim> claim_;  // rank 0, where it writes
  // From save to save; asynchronously, they hold all that one copies.
  std::shared_ptr<WriteBuffers> buffers_ = std::make_shared<WriteBuffers>();
  std::unique_ptr<Running> running_;
  std::vector<Saved> done_;
};

}  // namespace twofold::checkpoint
