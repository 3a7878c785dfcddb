// Tensors of the host's memory that visit the device chunk by chunk: while one chunk is used, the next one comes and the one
// before goes back, on a stream each. At most kInFlight chunks are on the device at one time.
//
// With n chunks that take `in`, `use` and `out` seconds each, a run takes about in + n max(in, use, out) + out.
// One rank's; used from its thread. All memory is back when Run returns.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/device/transfers.h"

namespace twofold::optim {

struct Visitor {
  Tensor home;              // what lies on the device stays there and is used as it is
  bool brings = true;       // its values come along; else what is on the device is undefined at first
  bool goes_back = false;   // the values that it has after use
};
using Chunk = std::vector<Visitor>;

class ChunkStaging {
 public:
  static constexpr size_t kInFlight = 3;  // one comes, one is used, one goes
  // `category`: of the copies on the device.
  ChunkStaging(Device& device, Category category);

  // Calls use(i, tensors) for every chunk in order; what it launches on the compute stream finds the chunk's visitors, in their
  // order, on the device. Throws OutOfMemory. No home is a part of another chunk's.
  using Use = absl::FunctionRef<void(size_t chunk, std::span<const Tensor> visitors)>;
  void Run(std::span<const Chunk> chunks, Use use);

 private:
  struct Visit {
    std::vector<Tensor> tensors;
    Transfer last;  // of those that bring, then of those that go back
  };
  Visit Fetch(const Chunk& chunk);
  void TakeBack(const Chunk& chunk, Visit& visit);

  TransferStream& In();
  TransferStream& Out();

  Device& device_;
  const Category category_;
  std::optional<TransferStream> in_, out_;  // made when first needed: making a GPU's stream, and ending it, takes as long as many launches
};

}  // namespace twofold::optim
