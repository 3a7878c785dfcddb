// The operations by which checkpoints change and read files: what a disk that is full, loses power or reads wrongly
// gets to decide (backends/simulated/disk.h). Whether names exist is asked of the file system itself.
//
// Every operation returns 0, or errno. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace twofold {

class Disk {
 public:
  virtual ~Disk() = default;

  // Opens a file for writing. `anew`: it must not exist; else its contents are dropped. `file`: the descriptor, which
  // the caller closes.
  virtual int Create(const std::string& path, bool anew, int& file) = 0;
  virtual int Reserve(int file, int64_t bytes) = 0;  // disk space. EOPNOTSUPP, EINVAL: this file system cannot
  virtual int Write(int file, std::span<const std::byte> bytes, int64_t offset) = 0;  // all of them
  virtual int Flush(int file) = 0;         // what was written survives a loss of power from then on
  virtual int CloseWritten(int file) = 0;  // one that Create has opened
  virtual int Read(int file, std::span<std::byte> out, int64_t offset, size_t& got) = 0;  // 0 got: the end of the file
  virtual int MakeFolder(const std::string& path) = 0;  // and those above it; 0 if it is there
  virtual int Rename(const std::string& from, const std::string& to) = 0;
  virtual int Remove(const std::string& path) = 0;       // with all that is in it
  virtual int FlushFolder(const std::string& path) = 0;  // names made, changed or removed in it survive from then on
};

// The machine's. It has no state.
Disk& RealDisk();

}  // namespace twofold
