// What lies in a folder: runs, plans, sweeps and replayed storms that the program has written.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace twofold::desk {

struct Item {
  enum Kind { kRun, kPlan, kSweep, kStorm } kind = kRun;
  std::string path;  // relative to the folder
  std::string name;  // of the job
  // Runs only:
  std::string title;  // "predicted (simulated)"
  std::string outcome;
  int64_t ranks = 0;
  double seconds = 0;      // of a step
  int64_t peak_bytes = 0;  // of the fullest rank
  int64_t written = 0;     // seconds since 1970
  std::string error;       // why it cannot be read; else empty
};

// The items of one folder, as they are now. A file is read again only if it was replaced, or if its size or the time of
// its last change, to the nanosecond, is another one. Threads may share a shelf.
class Shelf {
 public:
  explicit Shelf(std::string folder) : folder_(std::move(folder)) {}

  // All items in the folder and in folders below it, the newest first. Links are not followed. A run inside a sweep's
  // folder is an item of its own.
  std::vector<Item> Items();
  // Files that were read since the shelf was made.
  int64_t files_read() const { return files_read_; }

 private:
  struct Known {
    int64_t size = 0, changed = 0, number = 0;  // bytes; nanoseconds since 1970; the file system's number of the file
    Item item;
    int64_t seen = 0;  // in which look
  };
  void Look(const std::string& in, std::vector<Item>& items);

  const std::string folder_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  // by the file's path
  int64_t looks_ = 0;
  std::atomic<int64_t> files_read_ = 0;
};

}  // namespace twofold::desk
