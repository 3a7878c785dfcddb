// What an optimizer keeps for its slices: where that lies, and how an update gets at it.
//
// On the device, an update is one operation a slice. Offloaded, everything lies in the host's memory, a flat tensor for each
// kind with one slice behind the other, and visits the device in chunks, beside which the update is computed (as the states
// of ZeRO-Infinity do: Rajbhandari et al. 2021). With P elements in the slices and K kinds of f32 (Adam: 2, and 1 where there
// are masters):
//   memory     4 K P bytes leave the device; an update takes ChunkStaging::kInFlight * 4 K * chunk of it for its own time
//   transfers  4 K P bytes each way and update, in about K P / chunk pieces
// Values are the same to the bit, wherever they lie.
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

// What one operation updates, all of it on the device: a slice, or a part of one.
struct Piece {
  Tensor data, gradient;
  std::vector<Tensor> moments;
  Tensor master;  // empty where data leads itself
  Decay decay;
  ops::RoundingKeys rounding_keys;
};

class States {
 public:
  // `moments`: their names. A master is kept besides where slices are narrow and it leads them.
  States(std::vector<std::string> moments, const Offload& offload, const LowPrecisionUpdate& low_precision)
      : names_(std::move(moments)), offload_(offload), low_precision_(low_precision) {}

  // Moments are 0 at first, masters what the slices are. Offloaded, all slices are of one type; their data and gradients may
  // lie in the host's memory, too. Throws OutOfMemory.
  void Attach(nn::Context& ctx, std::span<const Slice> slices, double weight_decay);
  // Calls `update`, which launches it, for all that the slices hold, piece by piece.
  void Update(absl::FunctionRef<void(const Piece&)> update);
  std::vector<State> Of(size_t slice) const;

 private:
  struct Place {  // of a piece: elements [first, first + count) of a slice, from `at` on in its chunk
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
  std::vector<Piece> whole_;                // on the device: a slice each; offloaded: data and gradient are not used
  std::vector<Tensor> flat_;                // offloaded: each kind, the master last
  std::vector<std::vector<Place>> chunks_;  // likewise
  std::unique_ptr<ChunkStaging> staging_;        // likewise
};

}  // namespace twofold::optim
