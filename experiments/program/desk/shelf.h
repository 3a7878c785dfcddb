// What lies in a folder: runs, plans and sweeps that the program has written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace twofold::desk {

struct Item {
  enum Kind { kRun, kPlan, kSweep } kind = kRun;
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

// All items in `folder` and in folders below it, the newest first. Links are not followed. A run inside a sweep's
// folder is an item of its own.
std::vector<Item> ItemsIn(const std::string& folder);

}  // namespace twofold::desk
