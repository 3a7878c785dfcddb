#include "experiments/program/storm/checkpoints.h"

#include <cstddef>

#include "strategies/checkpoint/load.h"

namespace twofold::storm {

absl::Status ReadAll(const std::string& path) {
  const absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(path);
  if (!opened.ok()) return opened.status();
  checkpoint::Reader reader(opened->path, opened->manifest);
  std::vector<std::byte> bytes;
  for (const checkpoint::Entry& tensor : opened->manifest.contents.tensors) {
    bytes.resize(static_cast<size_t>(tensor.shape.numel() * ElementSize(tensor.dtype)));
    if (tensor.holds.empty() && bytes.empty()) continue;
    const absl::Status read =
        reader.Read(tensor.name, tensor.shape, tensor.dtype, Region::Whole(tensor.shape.numel()), bytes);
    if (!read.ok()) return read;
  }
  return absl::OkStatus();
}

std::vector<checkpoint::Found> CheckpointsOf(const std::string& folder, int64_t sequence_before) {
  std::vector<checkpoint::Found> all = checkpoint::List(folder);
  std::erase_if(all, [&](const checkpoint::Found& found) { return found.sequence <= sequence_before; });
  return all;
}

}  // namespace twofold::storm
