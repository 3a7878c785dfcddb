#include "core/io/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace twofold {
namespace {

namespace fs = std::filesystem;

class TheRealDisk : public Disk {
 public:
  int Create(const std::string& path, bool anew, int& file) override {
    file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (anew ? O_EXCL : O_TRUNC), 0644);
    return file < 0 ? errno : 0;
  }
  int Reserve(int file, int64_t bytes) override { return posix_fallocate(file, 0, bytes); }
  int Write(int file, std::span<const std::byte> bytes, int64_t offset) override {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(file, bytes.data(), bytes.size(), offset);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno;
      bytes = bytes.subspan(static_cast<size_t>(n));
      offset += n;
    }
    return 0;
  }
  int Flush(int file) override { return fsync(file) == 0 ? 0 : errno; }
  int CloseWritten(int file) override { return close(file) == 0 ? 0 : errno; }
  int Read(int file, std::span<std::byte> out, int64_t offset, size_t& got) override {
    ssize_t n = 0;
    do n = pread(file, out.data(), out.size(), offset);
    while (n < 0 && errno == EINTR);
    got = n < 0 ? 0 : static_cast<size_t>(n);
    return n < 0 ? errno : 0;
  }
  int MakeFolder(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    return error.value();
  }
  int Rename(const std::string& from, const std::string& to) override {
    return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }
  int Remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    return error.value();
  }
  int FlushFolder(const std::string& path) override {
    const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return errno;
    const int error = fsync(folder) == 0 ? 0 : errno;
    close(folder);
    return error == EINVAL ? 0 : error;  // no fsync on folders here
  }
};

}  // namespace

Disk& RealDisk() {
  static TheRealDisk& disk = *new TheRealDisk;
  return disk;
}

}  // namespace twofold
