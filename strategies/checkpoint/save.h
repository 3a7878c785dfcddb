// Saves a training run so that it can be resumed: parameters, buffers, optimizer state, and the metadata in
// core/io/checkpoint_manifest.h. The position in the data and the state of random numbers follow from seed and step.
//
// SHARDED: every rank writes what it holds to "rank-<n>.safetensors". Ranks that hold equal copies write an equal share
// each. Where islands train on their own (local_update.h), each writes its own parameters and optimizer state.
// FULL: whole tensors under their own names, in "model.safetensors" and "optimizer.safetensors". If every rank holds
// the whole model, rank 0 writes them. Otherwise every rank writes its share as in SHARDED, and rank 0 makes whole
// files from these, in a thread of its own and 4 MiB at a time (assemble.h). So no rank ever holds more than its own
// part in memory, and none waits for messages. All ranks must see the same folder.
//
// Steps of a save: rank 0 makes a temporary folder (core/io/checkpoint_folder.h). Each rank writes and syncs its files
// in a thread of its own. When all files are there, rank 0 writes the manifest and renames the folder. In asynchronous
// saves, ranks continue as soon as they have copied their data to host memory, and meet again in the next save or in
// Finish. Rank 0 finds the other ranks' files by polling the folder, so waiting for them costs training no message.
//
// In simulations files are complete when the model of files says so, not when the disk is done. Of a save that is cut
// off before that, nothing is left. In those without data nothing is written. Messages and memory are those of a run
// that writes, and it takes the time of a model (core/run/file_costs.h). If rank 0 assembles files, the model assumes
// that all ranks hold as much. On an emulated device files have their real sizes, but no values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/io/checkpoint_folder.h"
#include "core/io/worker.h"
#include "core/run/rank_context.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/checkpoint/stream.h"

namespace twofold::checkpoint {

struct SaveOptions {
  std::string folder;  // contains all checkpoints of the run
  bool full = false;
  bool asynchronous = false;
  int64_t keep_last = 2;  // number of checkpoints to keep; 0: all
};

struct Saved {
  int64_t step = 0;
  std::string path;     // empty: nothing was written
  Bytes bytes;          // of all its files
  Seconds stood_still;  // time for which training was stopped
  Seconds seconds;      // time until it was complete; asynchronous: until the end of the step that found it complete
};

// One object per rank, used from the rank's thread. All arguments must outlive it. Calls are collective over all ranks.
class Saver {
 public:
  // `metadata`: the run's; Save fills in step, updates, sequence and scalars. `mesh` covers all ranks. `local_update`:
  // null if there is none.
  Saver(RankContext& rank, DeviceMesh& mesh, ParameterLayout& layout, const optim::Optimizer& optimizer,
        SaveOptions options, Metadata metadata, LocalUpdate* local_update = nullptr);
  ~Saver();  // abandons a save that is not complete, unless Finish was called

  // Saves after `step` training steps. First waits for an unfinished asynchronous save. Throws RankFailure, which says
  // what could not be written and why, in this save or the one before: RunOver, since a disk that one rank finds full
  // will be full for the others. OutOfMemory; and what communication throws.
  void Save(int64_t step, std::map<std::string, double> scalars);
  // Waits for an asynchronous save. Throws as Save does.
  void Finish();
  // On rank 0, the checkpoints that became complete since the last call. Not collective. Throws if writing failed.
  std::vector<Saved> Poll();

  bool writes() const { return writes_; }

 private:
  struct Running;  // a save, from its start until all ranks have met again
  void Begin(int64_t step);
  void SaveShards();
  void SaveWhole();
  void AddShare(std::vector<LocalPiece> held, int64_t copy, int64_t copies, std::vector<LocalPiece>& share);
  std::vector<LocalPiece> OwnShare();
  void WriteFile(const std::string& name, std::vector<LocalPiece> held, bool prefixed);
  void PostPart(const std::string& name);
  void PrepareCommit(std::vector<std::string> parts, std::map<std::string, double> scalars);
  void PostCommit();
  void Complete();
  void ExpectEnd();
  void NoteWhole();
  void ThrowIf(const absl::Status& status) const;

  RankContext& rank_;
  DeviceMesh& mesh_;
  ParameterLayout& layout_;
  const optim::Optimizer& optimizer_;
  LocalUpdate* const local_update_;
  const SaveOptions options_;
  const Metadata metadata_;
  const bool writes_;
  const bool whole_;            // every rank holds the whole model
  std::optional<Claim> claim_;  // set on rank 0 if data is written, unless a member that was left behind has it
  // Reused from save to save. In asynchronous saves they hold everything that a save copies.
  std::shared_ptr<WriteBuffers> buffers_ = std::make_shared<WriteBuffers>();
  std::vector<FragmentState> outer_states_;  // set while a save is begun
  std::unique_ptr<Running> running_;
  std::vector<Saved> done_;
};

}  // namespace twofold::checkpoint
