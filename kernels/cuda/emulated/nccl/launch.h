// What a stream does of a communicator's operations: those of a group, or one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/nccl/clique.h"

namespace twofold::emulated {

enum class Function : uint32_t { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAllToAll, kGather, kScatter, kSend, kRecv };

struct Operation {
  Function function;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;  // elements: of a message, or of what the function's declaration counts
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;      // of a message: the peer
  cudaStream_t stream = nullptr;

  bool IsMessage() const { return function >= Function::kSend; }
  std::string Describe() const;  // "ncclReduce of 3 ncclFloat32 (ncclSum, root 1)"
  // Bytes that rank `rank` of `size` reads and writes: 0 where its buffer is not used.
  size_t FromBytes(int rank, int size) const;
  size_t ToBytes(int rank, int size) const;
  Described Description() const;
};
std::string Describe(const Described& call);

// One after another, in rounds of what fits the stages: all write their stages, then all read all stages.
class Collective {
 public:
  Collective(Clique* clique, const Operation& operation, uint32_t index, uint32_t of);
  // Goes on as far as others let it. `report` is called with what is wrong, once; it then never ends.
  bool Advance(const std::function<void(const std::string&)>& report);

 private:
  bool AllReached(uint64_t round, std::atomic<uint64_t> Place::*counter) const;
  bool Agree(const std::function<void(const std::string&)>& report);
  void Write();
  void Read();

  Clique* const clique_;
  const Operation operation_;
  Described described_;
  const size_t element_;  // bytes
  const size_t parts_;    // that a stage holds: one, or one for each rank
  const size_t chunk_;    // elements of each part in a round
  size_t done_ = 0;       // elements
  uint64_t round_ = 0;    // counted over the communicator's life
  bool written_ = false, stuck_ = false;
};

// A send or a receive, in pieces.
class Message {
 public:
  Message(Clique* clique, const Operation& operation);
  bool Advance(const std::function<void(const std::string&)>& report);

 private:
  bool AdvanceSend();
  bool AdvanceRecv(const std::function<void(const std::string&)>& report);

  Clique* const clique_;
  const Operation operation_;
  Channel* const channel_;
  const size_t bytes_;
  size_t done_ = 0;
  bool begun_ = false, stuck_ = false;
};

class Launch {
 public:
  Launch(Clique* clique, const std::vector<Operation>& operations);
  // All of it; false where it was stopped.
  bool Run(const std::atomic<bool>& stop, const std::function<void(const std::string&)>& report);

 private:
  Clique* const clique_;
  std::deque<Collective> collectives_;
  std::vector<std::deque<Message>> messages_;  // those of a peer and direction, in order
};

}  // namespace twofold::emulated
