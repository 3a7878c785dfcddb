// From a dataset's samples to tensors on a device.
#pragma once

#include <span>

#include "core/data/dataset.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace twofold {

struct Batch {
  Tensor inputs;   // [n, ...] of the dataset's input shape and type
  Tensor targets;  // [n, ...] of its target's
};

enum class BatchParts { kBoth, kInputs, kTargets };

// Allocates the tensors that are asked for (Category::kActivations, inputs first; the other one stays empty) and uploads the
// samples in the given order. Where the device holds no data nothing is read. Throws OutOfMemory.
Batch LoadBatch(Device& device, const Dataset& dataset, std::span<const int64_t> indices, BatchParts parts = BatchParts::kBoth);

}  // namespace twofold
