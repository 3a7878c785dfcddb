// Which launches of a stream repeat what was launched before, so that a CUDA graph can do them.
//
// A section is a run of operations on one stream, with nothing between them that waits, is waited for or is read by the
// host: what ranks compute between two communications. A section is launched as usual when it is first seen. When the
// same operations on the same addresses come again, they are captured in a graph, and from then on the graph is
// launched. (Memory depends on program order alone (core/memory/allocator.h), so steps of fixed shape use the same
// addresses again.) Numbers that change from step to step, such as a learning rate, are updated in the graph.
//
// Used by CUDA devices, which capture, and by simulated ones, which count. It has no clock, and knows no CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/device/op_identity.h"

namespace twofold {

class LaunchSections {
 public:
  // A section of more operations is cut, so that the stream does not idle while the host still gathers the rest.
  static constexpr size_t kMost = 128;
  // A graph of fewer costs as much as their launches.
  static constexpr size_t kLeast = 3;
  // More graphs are not made: each keeps memory of the driver's.
  static constexpr size_t kMostGraphs = 2048;

  enum class Do { kLaunch, kCapture, kReplay };
  struct Decision {
    Do what;
    int64_t graph = -1;           // number of the graph, from 0: the one to be made, or to be replayed
    std::vector<size_t> changed;  // kReplay: operations of the section whose numbers differ from the last replay's
  };

  void Add(const ops::OpIdentity& op) { open_.push_back(op); }
  size_t size() const { return open_.size(); }  // operations of the open section
  bool full() const { return open_.size() >= kMost; }
  Decision Close();  // ends the open section, which may be empty
  // The graph could not be made, or could not be changed: its operations are launched one by one from now on.
  void Abandon(int64_t graph);

  // How many sections were not replayed although a later step may replay them. It grows no more once steps repeat.
  int64_t settling() const { return settling_; }
  int64_t graphs() const { return static_cast<int64_t>(graphs_.size()); }  // ever asked for

 private:
  using Key = std::array<uint64_t, 2>;
  static constexpr int64_t kSeenOnce = -1, kNever = -2;
  static constexpr size_t kMostSeenOnce = 8192;

  std::vector<ops::OpIdentity> open_;
  absl::flat_hash_map<Key, int64_t> known_;  // number of the graph, or one of the constants above
  size_t seen_once_ = 0;
  int64_t settling_ = 0;
  struct Graph {
    Key key;
    std::vector<uint64_t> values;  // of each operation, at the last replay
  };
  std::vector<Graph> graphs_;
};

}  // namespace twofold
