// From a dataset's samples to tensors on a device.
#pragma once

#include <span>

#include "core/data/dataset.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace twofold {

struct Batch {
  Tensor inputs;   // [n, ...] of the dataset's input shape and type
  Tensor targets;  // [n, ...] of the dataset's target shape and type
};

enum class BatchParts { kBoth, kInputs, kTargets };

// Allocates the requested tensors (Category::kActivations, inputs first; the other one stays empty) and uploads the
// samples in the given order. If the device holds no data, nothing is read. Throws OutOfMemory.
Batch LoadBatch(Device& device, const Dataset& dataset, std::span<const int64_t> indices,
                BatchParts parts = BatchParts::kBoth);

}  // namespace twofold
