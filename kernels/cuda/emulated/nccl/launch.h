// A stream's work for a communicator: the operations of a group, or a single operation.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda/emulated/nccl/clique.h"

namespace twofold::emulated {

enum class Function : uint32_t { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kAlltoAll, kSend, kRecv };

struct Operation {
  Function function;
  const void* from = nullptr;
  void* to = nullptr;
  size_t count = 0;  // elements of a message, or as the declaration of the function counts them
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  int root = 0;  // for messages: the peer
  cudaStream_t stream = nullptr;

  bool IsMessage() const { return function >= Function::kSend; }
  std::string Describe() const;  // "ncclReduce of 3 ncclFloat32 (ncclSum, root 1)"
  // Bytes that rank `rank` of `size` reads and writes; 0 if its buffer is not used.
  size_t FromBytes(int rank, int size) const;
  size_t ToBytes(int rank, int size) const;
  Described Description() const;
};
std::string Describe(const Described& call);

// A collective, in rounds of the size of the stages: all ranks write their stages, then all read all stages.
class Collective {
 public:
  Collective(Clique* clique, const Operation& operation, uint32_t index, uint32_t of);
  // Advances as far as the other ranks allow. `report` is called once with the fault, if any; the collective then never
  // ends.
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
  const size_t parts_;    // parts of a stage: one, or one for each rank
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
  // Runs all operations; false if it was stopped.
  bool Run(const std::atomic<bool>& stop, const std::function<void(const std::string&)>& report);

 private:
  Clique* const clique_;
  std::deque<Collective> collectives_;
  std::vector<std::deque<Message>> messages_;  // one queue for each peer and direction, in order
};

}  // namespace twofold::emulated
