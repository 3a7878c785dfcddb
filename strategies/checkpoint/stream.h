// Writes a safetensors file: the rank's thread fills buffers with data downloaded from the device, and a worker writes
// them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/io/block_file.h"
#include "core/io/safetensors.h"
#include "core/io/worker.h"

namespace twofold::checkpoint {

// Append must deliver the elements of `tensors` in order. All arguments must outlive it. Errors are reported as the
// worker's status.
class FileStream {
 public:
  FileStream(Worker& worker, std::shared_ptr<WriteBuffers> buffers, Device& device, Disk& disk,
             const std::string& folder, const std::string& name, std::vector<StoredTensor> tensors);
  void Append(const Tensor& flat);  // downloads the tensor, which may change once this returns
  // Called when everything is appended. Posts the task that completes the file; *sum() is valid once the worker has
  // done it.
  void Finish();
  std::shared_ptr<const FileSum> sum() const { return sum_; }

 private:
  void AppendBytes(std::span<const std::byte> bytes);
  void Flush();

  Worker& worker_;
  Device& device_;
  int64_t left_ = 0;  // bytes
  std::shared_ptr<WriteBuffers> buffers_;
  WriteBuffer buffer_;
  std::shared_ptr<std::optional<BlockWriter>> writer_;
  std::shared_ptr<FileSum> sum_;
};

}  // namespace twofold::checkpoint
