#include "core/io/block_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "xxhash.h"

namespace twofold::checkpoint {
namespace {

absl::Status Failed(const std::string& path, std::string_view what, int error) {
  return Unavailable(path, ": cannot be ", what, ": ", std::strerror(error));
}

constexpr size_t kHugePage = size_t{2} << 20;

std::string Join(const std::string& folder, const std::string& name) { return StrCat(folder, "/", name); }

size_t BlocksOf(int64_t bytes) { return static_cast<size_t>((bytes + kChecksumBlock - 1) / kChecksumBlock); }

}  // namespace

uint64_t Checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

absl::StatusOr<FileSum> SumOfFile(const std::string& folder, const std::string& name) {
  const absl::StatusOr<PlainFile> file = PlainFile::Open(Join(folder, name));
  if (!file.ok()) return file.status();
  FileSum sum{name, file->bytes(), {}};
  std::vector<std::byte> block(static_cast<size_t>(std::min(kChecksumBlock, sum.bytes)));
  for (int64_t at = 0; at < sum.bytes; at += kChecksumBlock) {
    const auto part = std::span(block).first(static_cast<size_t>(std::min(kChecksumBlock, sum.bytes - at)));
    if (absl::Status status = file->Read(at, part); !status.ok()) return status;
    sum.blocks.push_back(Checksum(part));
  }
  return sum;
}

absl::StatusOr<PlainFile> PlainFile::Open(const std::string& path, Disk& disk) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return InvalidArgument(path, ": cannot be read: ", std::strerror(errno));
  PlainFile opened(disk, path, file);
  struct stat info {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return InvalidArgument(path, ": is not a regular file");
  opened.bytes_ = info.st_size;
  return opened;
}

PlainFile::~PlainFile() {
  if (file_ >= 0) close(file_);
}

absl::Status PlainFile::Read(int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    size_t n = 0;
    if (const int error = disk_->Read(file_, out, offset, n); error != 0) return Failed(path_, "read", error);
    if (n == 0) return InvalidArgument(path_, ": ends at byte ", offset, ", ", out.size(), " bytes too soon");
    out = out.subspan(n);
    offset += static_cast<int64_t>(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckedFile> CheckedFile::Open(const std::string& folder, const FileSum& sum, Disk& disk) {
  absl::StatusOr<PlainFile> file = PlainFile::Open(Join(folder, sum.name), disk);
  if (!file.ok()) return file.status();
  if (file->bytes() != sum.bytes) {
    return InvalidArgument(file->path(), ": has ", file->bytes(), " bytes, but had ", sum.bytes, " when it was saved");
  }
  TWOFOLD_CHECK_EQ(sum.blocks.size(), BlocksOf(sum.bytes));
  return CheckedFile(*std::move(file), &sum.blocks);
}

absl::Status CheckedFile::ReadBlock(int64_t block, std::span<std::byte> out) {
  if (absl::Status status = file_.Read(block * kChecksumBlock, out); !status.ok()) return status;
  const uint64_t is = Checksum(out), was = (*blocks_)[static_cast<size_t>(block)];
  if (is == was) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s: bytes %d to %d have changed since they were saved: their checksum is %016x, but was %016x", path(),
      block * kChecksumBlock, block * kChecksumBlock + static_cast<int64_t>(out.size()), is, was));
}

absl::Status CheckedFile::Read(int64_t offset, std::span<std::byte> out) {
  TWOFOLD_CHECK_LE(offset + static_cast<int64_t>(out.size()), bytes());
  while (!out.empty()) {
    const int64_t block = offset / kChecksumBlock, begin = block * kChecksumBlock;
    const int64_t size = std::min(kChecksumBlock, bytes() - begin);
    const int64_t part = std::min<int64_t>(static_cast<int64_t>(out.size()), begin + size - offset);
    if (part == size) {
      if (absl::Status status = ReadBlock(block, out.first(static_cast<size_t>(size))); !status.ok()) return status;
    } else {
      if (kept_ != block) {
        kept_ = -1;
        keep_.resize(static_cast<size_t>(size));
        if (absl::Status status = ReadBlock(block, keep_); !status.ok()) return status;
        kept_ = block;
      }
      std::memcpy(out.data(), keep_.data() + (offset - begin), static_cast<size_t>(part));
    }
    out = out.subspan(static_cast<size_t>(part));
    offset += part;
  }
  return absl::OkStatus();
}

WriteBuffer::WriteBuffer() : data_(static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSize))) {
  if (data_ == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  // Faulting in a thousand small pages costs as much as writing them; the kernel may decline
  madvise(data_, kSize, MADV_HUGEPAGE);
#endif
}
WriteBuffer::~WriteBuffer() { std::free(data_); }

WriteBuffer WriteBuffers::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      WriteBuffer buffer = std::move(idle_.back());
      idle_.pop_back();
      return buffer;
    }
  }
  return WriteBuffer();
}

void WriteBuffers::Give(WriteBuffer buffer) {
  buffer.Clear();
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(buffer));
}

absl::StatusOr<BlockWriter> BlockWriter::Create(const std::string& folder, const std::string& name, int64_t bytes,
                                                Disk& disk) {
  const std::string path = Join(folder, name);
  int file = -1;
  if (const int error = disk.Create(path, /*anew=*/true, file); error != 0) return Failed(path, "written", error);
  BlockWriter writer(disk, path, file, {name, bytes, {}});
  writer.sum_.blocks.reserve(BlocksOf(bytes));
  // Reports a full disk now, not after an hour. Some network file systems lack this call and report it later.
  const int error = bytes > 0 ? disk.Reserve(file, bytes) : 0;
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL)
    return Failed(path, StrCat("given ", bytes, " bytes of disk space"), error);
  return writer;
}

BlockWriter::~BlockWriter() {
  if (file_ >= 0) disk_->CloseWritten(file_);
}

absl::Status BlockWriter::Write(const WriteBuffer& buffer) {
  const std::span<const std::byte> bytes = buffer.bytes();
  TWOFOLD_CHECK_EQ(written_ % kChecksumBlock, 0);  // else an earlier buffer was not full
  for (size_t at = 0; at < bytes.size(); at += kChecksumBlock) {
    sum_.blocks.push_back(Checksum(bytes.subspan(at, std::min<size_t>(kChecksumBlock, bytes.size() - at))));
  }
  if (const int error = disk_->Write(file_, bytes, written_); error != 0) return Failed(path_, "written", error);
  // Only starts the write; fsync makes it durable
  sync_file_range(file_, written_, static_cast<int64_t>(bytes.size()), SYNC_FILE_RANGE_WRITE);
  written_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<FileSum> BlockWriter::Finish() {
  TWOFOLD_CHECK_EQ(written_, sum_.bytes);
  if (const int error = disk_->Flush(file_); error != 0) return Failed(path_, "flushed to disk", error);
  if (const int error = disk_->CloseWritten(std::exchange(file_, -1)); error != 0)
    return Failed(path_, "closed", error);
  return std::move(sum_);
}

absl::Status PublishSmallFile(const std::string& folder, const std::string& name, const std::string& text, Disk& disk) {
  const std::string path = Join(folder, name), aside = StrCat(path, ".part");
  int file = -1;
  if (const int error = disk.Create(aside, /*anew=*/false, file); error != 0) return Failed(path, "written", error);
  absl::Cleanup closing = [&disk, file] { disk.CloseWritten(file); };
  if (const int error = disk.Write(file, std::as_bytes(std::span(text)), 0); error != 0)
    return Failed(path, "written", error);
  if (const int error = disk.Flush(file); error != 0) return Failed(path, "flushed to disk", error);
  if (const int error = disk.Rename(aside, path); error != 0) return Failed(path, "written", error);
  return absl::OkStatus();
}

absl::Status WriteSmallFile(const std::string& folder, const std::string& name, const std::string& text, Disk& disk) {
  if (absl::Status status = PublishSmallFile(folder, name, text, disk); !status.ok()) return status;
  return SyncFolder(folder, disk);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t most, Disk& disk) {
  const absl::StatusOr<PlainFile> file = PlainFile::Open(path, disk);
  if (!file.ok()) return file.status();
  if (file->bytes() > most)
    return InvalidArgument(path, ": has ", file->bytes(), " bytes, but may have at most ", most);
  std::string text(static_cast<size_t>(file->bytes()), '\0');
  if (absl::Status status = file->Read(0, std::as_writable_bytes(std::span(text))); !status.ok()) return status;
  return text;
}

absl::Status SyncFolder(const std::string& path, Disk& disk) {
  const int error = disk.FlushFolder(path);
  return error == 0 ? absl::OkStatus() : Failed(path, "flushed to disk", error);
}

}  // namespace twofold::checkpoint
