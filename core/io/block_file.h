// Files with a checksum (XXH3, 64 bits) per MiB. Written once from front to end, read at any offset.
//
// A reader of a part checks only the blocks that contain it, so a rank that needs a hundredth of a checkpoint reads a
// hundredth of it. Errors name the path and the byte. A `disk` must outlive what is opened on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/io/disk.h"

namespace twofold::checkpoint {

inline constexpr int64_t kChecksumBlock = int64_t{1} << 20;

// The expected size and checksums of a complete file.
struct FileSum {
  std::string name;  // within its folder
  int64_t bytes = 0;
  std::vector<uint64_t> blocks;  // one checksum per kChecksumBlock bytes; the last covers the rest
};

uint64_t Checksum(std::span<const std::byte> bytes);

// The checksums of the current contents of the file `name` in `folder`.
absl::StatusOr<FileSum> SumOfFile(const std::string& folder, const std::string& name);

// A regular file, open for reading.
class PlainFile {
 public:
  static absl::StatusOr<PlainFile> Open(const std::string& path, Disk& disk = RealDisk());
  PlainFile(PlainFile&& other) noexcept
      : disk_(other.disk_),
        path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        bytes_(other.bytes_) {}
  ~PlainFile();
  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  absl::Status Read(int64_t offset, std::span<std::byte> out) const;  // fills all of `out`

 private:
  PlainFile(Disk& disk, std::string path, int file) : disk_(&disk), path_(std::move(path)), file_(file) {}
  Disk* disk_;
  std::string path_;
  int file_;
  int64_t bytes_ = 0;
};

// A file that is checked against its checksums as it is read.
class CheckedFile {
 public:
  // Refuses a file of a different size. `sum` must outlive this object.
  static absl::StatusOr<CheckedFile> Open(const std::string& folder, const FileSum& sum, Disk& disk = RealDisk());
  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return file_.bytes(); }
  // Fills `out` from byte `offset` on. Blocks needed as a whole are read directly into `out`, the others through a
  // cached block.
  absl::Status Read(int64_t offset, std::span<std::byte> out);

 private:
  CheckedFile(PlainFile file, const std::vector<uint64_t>* blocks) : file_(std::move(file)), blocks_(blocks) {}
  absl::Status ReadBlock(int64_t block, std::span<std::byte> out);

  PlainFile file_;
  const std::vector<uint64_t>* blocks_;
  int64_t kept_ = -1;            // index of the cached block
  std::vector<std::byte> keep_;  // its contents
};

// Page-aligned memory that is written with a single call.
class WriteBuffer {
 public:
  static constexpr int64_t kSize = 4 * kChecksumBlock;
  WriteBuffer();
  ~WriteBuffer();
  WriteBuffer(WriteBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  WriteBuffer& operator=(WriteBuffer&& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  std::span<std::byte> room() { return {data_ + size_, static_cast<size_t>(kSize - size_)}; }
  void Clear() { size_ = 0; }
  void Filled(size_t bytes) { size_ += static_cast<int64_t>(bytes); }  // after filling the front of room()
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  std::byte* data_;
  int64_t size_ = 0;
};

// Buffers for reuse: memory that was touched before is filled several times as fast. Callable from any thread. Keeps as
// many buffers as were in use at the same time.
class WriteBuffers {
 public:
  WriteBuffer Take();
  void Give(WriteBuffer buffer);

 private:
  std::mutex mutex_;
  std::vector<WriteBuffer> idle_;
};

// Writes a new file of a known size. Each buffer is submitted to the disk at once, so that little is left to wait for
// at the end.
class BlockWriter {
 public:
  // The folder must exist. The file must not exist.
  static absl::StatusOr<BlockWriter> Create(const std::string& folder, const std::string& name, int64_t bytes,
                                            Disk& disk = RealDisk());
  BlockWriter(BlockWriter&& other) noexcept
      : disk_(other.disk_),
        path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        sum_(std::move(other.sum_)),
        written_(other.written_) {}
  ~BlockWriter();
  // Every buffer except the last must be full.
  absl::Status Write(const WriteBuffer& buffer);
  // Returns once the file is complete and on disk.
  absl::StatusOr<FileSum> Finish();

 private:
  BlockWriter(Disk& disk, std::string path, int file, FileSum sum)
      : disk_(&disk), path_(std::move(path)), file_(file), sum_(std::move(sum)) {}
  Disk* disk_;
  std::string path_;
  int file_;
  FileSum sum_;  // sum_.bytes: the final size
  int64_t written_ = 0;
};

// Writes a small file for readers that wait for its name: its contents are on disk before the name appears. The folder
// is not touched afterwards, since a reader may then rename or remove it. Call SyncFolder to get the name itself on
// disk.
absl::Status PublishSmallFile(const std::string& folder, const std::string& name, const std::string& text,
                              Disk& disk = RealDisk());
// Writes a small file atomically, replacing an existing one. Contents and name are on disk when this returns.
absl::Status WriteSmallFile(const std::string& folder, const std::string& name, const std::string& text,
                            Disk& disk = RealDisk());
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most, Disk& disk = RealDisk());
absl::Status SyncFolder(const std::string& path,
                        Disk& disk = RealDisk());  // makes names created, removed or changed in the folder durable

}  // namespace twofold::checkpoint
