// The disk as one simulated rank sees it: the machine's, on which things go wrong. Files are real; put them into memory
// (/dev/shm) if their number matters.
//
//   full          operations that need space fail with ENOSPC
//   failed reads  reads fail with EIO
//   damage        a bit of a file changes, and nobody is told
//   lost power    what the rank has written and not flushed is lost, in whole or from some byte on. From then on every
//                 operation of the rank fails. If nothing stays of that, names that it has given to files and folders
//                 are lost, too, if it has not flushed the folder that they are in
//
// Assumes: folders that are made, and all that is removed, are on the disk at once, as on a file server that outlives
// its clients. Ignores: damage by writes that the disk reorders, and blocks that change places.
//
// Callable from the rank's threads, of which those that write work while the rank waits for them; so what happens is
// the same in every run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/io/disk.h"

namespace twofold {

class SimulatedDisk : public Disk {
 public:
  ~SimulatedDisk() override;
  // Calls `fn` once, before the operation with this number, counted from 1. `fn` may call what follows.
  void Before(int64_t operation, std::function<void(SimulatedDisk&)> fn);

  void BecomeFull(int64_t operations) { full_ += operations; }  // for so many that need space
  void FailReads(int64_t reads) { failing_reads_ += reads; }
  // Changes a bit of the `file`-th file that the rank has written and that is still there, counted backwards from 0, at
  // this share of its length. Returns its path; empty: there is none, or it is empty.
  std::string Damage(int64_t file, double at);
  // Whether the file that Damage has changed, in its call number `call` from 0 on that changed one, has been deleted
  // since. Another file may have its name now.
  bool IsDeleted(size_t call) const;
  // `kept`: the share of what was not flushed that stays, of each file. 0: no name stays, either.
  void LosePower(double kept);
  bool has_power() const;

  int Create(const std::string& path, bool anew, int& file) override;
  int Reserve(int file, int64_t bytes) override;
  int Write(int file, std::span<const std::byte> bytes, int64_t offset) override;
  int Flush(int file) override;
  int CloseWritten(int file) override;
  int Read(int file, std::span<std::byte> out, int64_t offset, size_t& got) override;
  int MakeFolder(const std::string& path) override;
  int Rename(const std::string& from, const std::string& to) override;
  int Remove(const std::string& path) override;
  int FlushFolder(const std::string& path) override;

 private:
  struct Written {
    std::string path;
    int64_t size = 0, flushed = 0;  // bytes: of what was written, and of what is safe of it
    int64_t reserved = 0;
  };
  struct Named {
    std::string before, now;  // paths; `before` is empty: it was made
    uint64_t inode = 0;       // of what has the name: others may use it anew
  };
  int Begin(bool needs_space);  // of an operation: 0, or why it fails
  Written* Of(int file);
  void NoteName(const std::string& before, const std::string& now);
  void TakeNamesBack();

  mutable std::recursive_mutex mutex_;  // calls of Before's functions hold it
  Disk& below_ = RealDisk();
  int64_t operations_ = 0, full_ = 0, failing_reads_ = 0;
  bool has_power_ = true;
  std::multimap<int64_t, std::function<void(SimulatedDisk&)>> before_;
  std::vector<Written> written_;  // in the order in which they were created
  std::vector<Named> names_;      // that were given, and whose folder was not flushed since
  std::map<int, size_t> open_;    // by descriptor: in written_
  std::vector<int> damaged_;      // files that Damage has changed, kept open
};

}  // namespace twofold
