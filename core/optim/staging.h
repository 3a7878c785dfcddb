// Stages tensors in host memory through the device, chunk by chunk: while one chunk is used, the next is copied in and
// the previous one is copied out, each direction on its own stream. At most kInFlight chunks are on the device at a
// time.
//
// With n chunks that take `in`, `use` and `out` seconds each, a run takes about in + n max(in, use, out) + out. Belongs
// to one rank and is used from its thread. All device memory is free again when Run returns.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/device/transfers.h"

namespace twofold::optim {

struct Visitor {
  Tensor home;             // a tensor on the device is not copied but used in place
  bool brings = true;      // its values are copied in; else the device copy is undefined at first
  bool goes_back = false;  // its values after use are copied back
};
using Chunk = std::vector<Visitor>;

class ChunkStaging {
 public:
  static constexpr size_t kInFlight = 3;  // one is copied in, one is used, one is copied out
  // `category`: of the copies on the device.
  ChunkStaging(Device& device, Category category);

  // Calls use(i, tensors) for every chunk in order. What it launches on the compute stream finds the chunk's visitors
  // on the device, in their order. Throws OutOfMemory. No two chunks may overlap in a home.
  using Use = absl::FunctionRef<void(size_t chunk, std::span<const Tensor> visitors)>;
  void Run(std::span<const Chunk> chunks, Use use);

 private:
  struct Visit {
    std::vector<Tensor> tensors;
    Transfer last;  // the last copy in; later the last copy out
  };
  Visit Fetch(const Chunk& chunk);
  void TakeBack(const Chunk& chunk, Visit& visit);

  TransferStream& In();
  TransferStream& Out();

  Device& device_;
  const Category category_;
  // Created on first use: creating or destroying a GPU stream takes as long as many launches.
  std::optional<TransferStream> in_, out_;
};

}  // namespace twofold::optim
