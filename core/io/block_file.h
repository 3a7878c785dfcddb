// Files whose every mebibyte has a checksum (XXH3, 64 bits): written once from front to end, read in any place.
//
// A reader of a part checks the blocks that hold it and no others, so that a rank which needs a hundredth of a checkpoint reads
// a hundredth of it. Errors name the path and the byte.
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

namespace twofold::checkpoint {

inline constexpr int64_t kChecksumBlock = int64_t{1} << 20;

// What a whole file must be.
struct FileSum {
  std::string name;  // within its folder
  int64_t bytes = 0;
  std::vector<uint64_t> blocks;  // of each kChecksumBlock bytes, the last one of what is left
};

uint64_t Checksum(std::span<const std::byte> bytes);

// The sum of what stands in the file `name` of `folder`.
absl::StatusOr<FileSum> SumOfFile(const std::string& folder, const std::string& name);

// A regular file, open for reading.
class PlainFile {
 public:
  static absl::StatusOr<PlainFile> Open(const std::string& path);
  PlainFile(PlainFile&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}
  ~PlainFile();
  const std::string& path() const { return path_; }
  int64_t bytes() const { return bytes_; }
  absl::Status Read(int64_t offset, std::span<std::byte> out) const;  // all of `out`

 private:
  PlainFile(std::string path, int file, int64_t bytes) : path_(std::move(path)), file_(file), bytes_(bytes) {}
  std::string path_;
  int file_;
  int64_t bytes_;
};

// A file that is held against its sum as it is read.
class CheckedFile {
 public:
  // Refuses a file of another size. `sum` must outlive it.
  static absl::StatusOr<CheckedFile> Open(const std::string& folder, const FileSum& sum);
  const std::string& path() const { return file_.path(); }
  int64_t bytes() const { return file_.bytes(); }
  // Fills `out` from byte `offset` on. Blocks that it needs whole are read into place, the others by way of one that is kept.
  absl::Status Read(int64_t offset, std::span<std::byte> out);

 private:
  CheckedFile(PlainFile file, const std::vector<uint64_t>* blocks) : file_(std::move(file)), blocks_(blocks) {}
  absl::Status ReadBlock(int64_t block, std::span<std::byte> out);

  PlainFile file_;
  const std::vector<uint64_t>* blocks_;
  int64_t kept_ = -1;            // which block
  std::vector<std::byte> keep_;  // its bytes
};

// Page-aligned memory that is written in one go.
class WriteBuffer {
 public:
  static constexpr int64_t kSize = 4 * kChecksumBlock;
  WriteBuffer();
  ~WriteBuffer();
  WriteBuffer(WriteBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  WriteBuffer& operator=(WriteBuffer&& other) noexcept {
    std::swap(data_, other.data_), std::swap(size_, other.size_);
    return *this;
  }
  std::span<std::byte> room() { return {data_ + size_, static_cast<size_t>(kSize - size_)}; }
  void Clear() { size_ = 0; }
  void Filled(size_t bytes) { size_ += static_cast<int64_t>(bytes); }  // of room()'s front
  std::span<const std::byte> bytes() const { return {data_, static_cast<size_t>(size_)}; }

 private:
  std::byte* data_;
  int64_t size_ = 0;
};

// Buffers that were written, for the next ones: memory that was touched before is filled several times as fast. Any thread
// may call. Keeps as many as were in use at one time.
class WriteBuffers {
 public:
  WriteBuffer Take();
  void Give(WriteBuffer buffer);

 private:
  std::mutex mutex_;
  std::vector<WriteBuffer> idle_;
};

// Writes a new file of a known size. The disk is set to work on every buffer at once, so that little is left to wait for at the end.
class BlockWriter {
 public:
  // The folder must exist, the file must not.
  static absl::StatusOr<BlockWriter> Create(const std::string& folder, const std::string& name, int64_t bytes);
  BlockWriter(BlockWriter&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), sum_(std::move(other.sum_)), written_(other.written_) {}
  ~BlockWriter();
  // Every buffer but the last is full.
  absl::Status Write(const WriteBuffer& buffer);
  // The file is whole and on the disk.
  absl::StatusOr<FileSum> Finish();

 private:
  BlockWriter(std::string path, int file, FileSum sum) : path_(std::move(path)), file_(file), sum_(std::move(sum)) {}
  std::string path_;
  int file_;
  FileSum sum_;  // bytes: what it will have
  int64_t written_ = 0;
};

// A small file for one who waits for its name: its bytes are on the disk before the name is there. Nothing is done to the folder
// after that, as who has waited may rename or remove it. That the name itself is on the disk, SyncFolder sees to.
absl::Status PublishSmallFile(const std::string& folder, const std::string& name, const std::string& text);
// A small file, on the disk by name when this returns; replaces what was there in one go.
absl::Status WriteSmallFile(const std::string& folder, const std::string& name, const std::string& text);
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most);
absl::Status SyncFolder(const std::string& path);  // names that were made, removed or changed in it are on the disk

}  // namespace twofold::checkpoint
