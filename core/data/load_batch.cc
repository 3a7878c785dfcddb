#include "core/data/load_batch.h"

#include <cstring>
#include <string_view>
#include <vector>

namespace twofold {
namespace {

Tensor NewBatchTensor(Device& device, int64_t n, const SampleType& sample, std::string_view name) {
  std::vector<int64_t> dims = {n};
  dims.insert(dims.end(), sample.shape.begin(), sample.shape.end());
  return device.NewTensor(Shape(std::span<const int64_t>(dims)), sample.dtype, Category::kActivations, name);
}

}  // namespace

Batch LoadBatch(Device& device, const Dataset& dataset, std::span<const int64_t> indices, BatchParts parts) {
  const auto n = static_cast<int64_t>(indices.size());
  const auto input_bytes = static_cast<size_t>(dataset.input().bytes());
  const auto target_bytes = static_cast<size_t>(dataset.target().bytes());
  Batch batch;
  if (parts != BatchParts::kTargets) batch.inputs = NewBatchTensor(device, n, dataset.input(), "samples");
  if (parts != BatchParts::kInputs) batch.targets = NewBatchTensor(device, n, dataset.target(), "targets");
  // Each sample is read once: the part that is not being uploaded is buffered here, or dropped if it is not asked for.
  std::vector<std::byte> inputs, targets;
  const auto read = [&](std::span<std::byte> input, std::span<std::byte> target) {
    for (size_t i = 0; i < indices.size(); ++i) {
      dataset.Read(indices[i], input.subspan(i * input_bytes, input_bytes),
                   target.subspan(i * target_bytes, target_bytes));
    }
  };
  if (!batch.inputs.empty()) {
    device.Upload(batch.inputs, [&](std::span<std::byte> out) {
      targets.resize(indices.size() * target_bytes);
      read(out, targets);
    });
  }
  if (!batch.targets.empty()) {
    device.Upload(batch.targets, [&](std::span<std::byte> out) {
      if (batch.inputs.empty()) {
        inputs.resize(indices.size() * input_bytes);
        return read(inputs, out);
      }
      TWOFOLD_CHECK_EQ(out.size(), targets.size());
      if (!targets.empty()) std::memcpy(out.data(), targets.data(), targets.size());
    });
  }
  return batch;
}

}  // namespace twofold
