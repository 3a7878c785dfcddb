#include "strategies/checkpoint/stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace twofold::checkpoint {

FileStream::FileStream(Worker& worker, std::shared_ptr<WriteBuffers> buffers, Device& device, Disk& disk,
                       const std::string& folder, const std::string& name, std::vector<StoredTensor> tensors)
    : worker_(worker),
      device_(device),
      buffers_(std::move(buffers)),
      buffer_(buffers_->Take()),
      writer_(std::make_shared<std::optional<BlockWriter>>()),
      sum_(std::make_shared<FileSum>()) {
  const std::string header = SafetensorsHeader(tensors, FileMetadata(device.holds() == Holds::kValues));
  left_ = static_cast<int64_t>(header.size());
  for (const StoredTensor& t : tensors) left_ += t.bytes();
  worker_.Post(0, [writer = writer_, &disk, folder, name, bytes = left_]() -> absl::Status {
    absl::StatusOr<BlockWriter> created = BlockWriter::Create(folder, name, bytes, disk);
    if (!created.ok()) return created.status();
    writer->emplace(*std::move(created));
    return absl::OkStatus();
  });
  AppendBytes(std::as_bytes(std::span(header)));
}

void FileStream::Append(const Tensor& flat) {
  const int64_t element = ElementSize(flat.dtype());
  for (int64_t at = 0; at < flat.numel();) {
    const std::span<std::byte> room = buffer_.room();
    const int64_t count = std::min(static_cast<int64_t>(room.size()) / element, flat.numel() - at);
    if (count == 0) {  // the buffer ends within an element
      std::array<std::byte, 8> one;
      device_.ReadBytes(flat.Slice(at, 1), std::span(one).first(static_cast<size_t>(element)));
      AppendBytes(std::span(one).first(static_cast<size_t>(element)));
      at += 1;
      continue;
    }
    const auto bytes = static_cast<size_t>(count * element);
    device_.ReadBytes(flat.Slice(at, count), room.first(bytes));
    buffer_.Filled(bytes);
    left_ -= static_cast<int64_t>(bytes);
    at += count;
    if (buffer_.room().empty()) Flush();
  }
}

void FileStream::AppendBytes(std::span<const std::byte> bytes) {
  left_ -= static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const std::span<std::byte> room = buffer_.room();
    const size_t part = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), part);
    buffer_.Filled(part);
    bytes = bytes.subspan(part);
    if (buffer_.room().empty()) Flush();
  }
}

void FileStream::Flush() {
  if (buffer_.bytes().empty()) return;
  auto full = std::make_shared<WriteBuffer>(std::exchange(buffer_, buffers_->Take()));
  worker_.Post(WriteBuffer::kSize, [writer = writer_, buffers = buffers_, full] {
    const absl::Status status = (*writer)->Write(*full);
    buffers->Give(std::move(*full));
    return status;
  });
}

void FileStream::Finish() {
  TWOFOLD_CHECK_EQ(left_, 0);
  Flush();
  worker_.Post(0, [writer = writer_, sum = sum_]() -> absl::Status {
    absl::StatusOr<FileSum> finished = (*writer)->Finish();
    if (!finished.ok()) return finished.status();
    *sum = *std::move(finished);
    return absl::OkStatus();
  });
}

}  // namespace twofold::checkpoint
