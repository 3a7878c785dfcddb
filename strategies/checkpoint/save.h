// Saves a training run so that it can go on: parameters, buffers, optimizer state, and what manifest.h lists. Where training
// stands in its data and random numbers follows from seed and step.
//
// SHARDED: every rank writes what it holds to "rank-<n>.safetensors", replicas an equal share each. FULL: rank 0 writes
// "model.safetensors", whole tensors under their own names, and "optimizer.safetensors"; what it does not hold reaches it in
// messages of at most kMessage bytes, so that it never holds more than one beyond its own. All ranks must see the same folder.
//
// A save is: rank 0 makes a folder aside (folder.h); files are written and brought to the disk, each by a thread of its rank's own;
// rank 0, once all are there, writes the manifest and renames. Asynchronously, ranks go on when they have copied what they
// hold to the host's memory (FULL: rank 0, the whole), and ranks meet again in the next save or in Finish. A wait for others'
// files is a wait for files: it costs training no message.
//
// Where no data exists nothing is written; messages and memory are those of a run that writes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "strategies/checkpoint/folder.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/checkpoint/stream.h"
#include "strategies/checkpoint/worker.h"

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
  static constexpr int64_t kMessage = int64_t{4} << 20;

  // `facts` are the run's; step, updates, sequence and scalars are filled in by Save. `replicas` share the batch.
  Saver(RankContext& rank, ProcessGroup& replicas, ParameterLayout& layout, const optim::Optimizer& optimizer, SaveOptions options,
        Facts facts);
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
  using Map = std::vector<std::vector<optim::Part>>;  // of one rank: for every slice, its parts
  struct Source {  // a slice's data, or a state of it
    size_t slice;
    Tensor tensor;
    std::string prefix;  // of names in the file
  };
  struct Target {  // one file of a full checkpoint
    std::string file, kind;  // kind: of names in the manifest
    std::vector<Source> sources;
    std::vector<Held> more;  // which rank 0 holds whole
  };

  void Begin(int64_t step);
  void SaveShards();
  void SaveWhole();
  std::vector<Map> ExchangeMaps(ProcessGroup* holders, const std::vector<optim::Slice>& slices);
  void WriteWhole(ProcessGroup* holders, const std::vector<Map>& maps, const Target& target);
  void Collect(ProcessGroup& holders, const std::vector<Map>& maps, const Source& source, FileStream* out);
  void Send(ProcessGroup& holders, const Tensor& flat);
  void PostPart(const std::string& name);
  void PostCommit(std::vector<std::string> parts, std::map<std::string, double> scalars);
  void Complete();
  void NoteWhole();
  void ThrowIf(const absl::Status& status) const;

  RankContext& rank_;
  ProcessGroup& replicas_;
  ParameterLayout& layout_;
  const optim::Optimizer& optimizer_;
  const SaveOptions options_;
  const Facts facts_;
  const bool writes_;
  std::optional<Claim> claim_;  // rank 0, where it writes
  // From save to save; asynchronously, they hold all that one copies.
  std::shared_ptr<WriteBuffers> buffers_ = std::make_shared<WriteBuffers>();
  std::unique_ptr<Running> running_;
  std::vector<Saved> done_;
};

}  // namespace twofold::checkpoint
