// What an optimizer keeps for its slices: where it is, and how an update accesses it.
//
// On the device, an update is one operation per slice. Offloaded, everything is in host memory, in one flat tensor for
// each kind that holds the slices one behind the other. It is staged through the device in chunks, overlapped with the
// update (like the states of ZeRO-Infinity: Rajbhandari et al. 2021). With P elements in the slices and K kinds of f32
// (Adam: 2, plus 1 with masters):
//   memory     4 K P bytes leave the device; an update takes ChunkStaging::kInFlight * 4 K * chunk of it while it runs
//   transfers  4 K P bytes each way per update, in about K P / chunk pieces
// Values are the same to the bit in both places.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/optim/optimizer.h"
#include "core/optim/staging.h"
#include "core/optim/state.h"

namespace twofold::optim {

// What one operation updates, all of it on the device: a slice or a part of one.
struct Piece {
  Tensor data, gradient;
  std::vector<Tensor> moments;
  Tensor master;  // empty: data is updated directly
  Decay decay;
  ops::RoundingKeys rounding_keys;
};

class States {
 public:
  // `moments`: their names. If slices are BF16 or F16 and low_precision is kMaster, a master is kept, too.
  States(std::vector<std::string> moments, const Offload& offload, const LowPrecisionUpdate& low_precision)
      : names_(std::move(moments)), offload_(offload), low_precision_(low_precision) {}

  // Moments start at 0, masters at the slices' values. If offloaded, all slices must have one type, and their data and
  // gradients may be in host memory, too. Throws OutOfMemory.
  void Attach(nn::Context& ctx, std::span<const Slice> slices, double weight_decay);
  // Calls `update`, which launches the operation, piece by piece for everything that the slices hold.
  void Update(absl::FunctionRef<void(const Piece&)> update);
  std::vector<State> Of(size_t slice) const;
  std::vector<StateShape> ShapesOf(const nn::Parameter& parameter) const;  // of the moments

 private:
  struct Place {  // of a piece: elements [first, first + count) of a slice, starting at `at` in its chunk
    size_t slice;
    int64_t first, count, at;
    Decay decay;
    ops::RoundingKeys rounding_keys;
  };
  void AttachOnDevice(nn::Context& ctx, double weight_decay);
  void AttachOnHost(nn::Context& ctx, double weight_decay);
  void MakePlaces(const std::vector<int64_t>& starts, double weight_decay);
  void Begin(nn::Context& ctx);
  Chunk Kinds(size_t chunk, bool brings) const;
  ops::RoundingKeys RoundingKeys(const Slice& slice, int64_t first, int64_t count) const;

  const std::vector<std::string> names_;
  const Offload offload_;
  const LowPrecisionUpdate low_precision_;
  int64_t chunk_ = 0;  // elements
  std::vector<Slice> slices_;
  std::vector<Piece> whole_;                // on the device: one per slice; offloaded: data and gradient are not used
  std::vector<Tensor> flat_;                // offloaded: one per kind, the master last
  std::vector<std::vector<Place>> chunks_;  // offloaded
  std::unique_ptr<ChunkStaging> staging_;   // offloaded
};

}  // namespace twofold::optim
