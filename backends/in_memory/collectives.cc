#include "backends/in_memory/collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/base/check.h"
#include "kernels/cpu/reduce.h"

namespace twofold::in_memory {
namespace {

using Calls = std::span<const Call* const>;

constexpr int64_t kPiece = 64 << 10;  // bytes copied to all receivers while they are in the cache

const Communication& Of(Calls calls, int rank) { return calls[static_cast<size_t>(rank)]->communication; }
char* Raw(const Tensor& t) { return static_cast<char*>(t.raw()); }

// A rank's share of n elements; boundaries lie on multiples of 64 elements, so that ranks write no common cache line.
struct Share { int64_t first, count; };
Share ShareOf(int64_t n, int rank, int size) {
  const int64_t lines = (n + 63) / 64;
  const int64_t begin = std::min(n, lines * rank / size * 64), end = std::min(n, lines * (rank + 1) / size * 64);
  return {begin, end - begin};
}

void Copy(char* to, const char* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// One source, many receivers: piece by piece, so that the source is read from memory once.
void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes) {
  for (int64_t first = 0; first < bytes; first += kPiece) {
    for (char* t : to) Copy(t + first, from + first, std::min(kPiece, bytes - first));
  }
}

// Rank r reduces share r of everybody's tensor, in rank order, and writes it to `outputs`: all tensors, or the root's.
void Reduce(Calls calls, int rank, bool to_all) {
  const Communication& own = Of(calls, rank);
  const Share share = ShareOf(own.out.numel(), rank, static_cast<int>(calls.size()));
  if (share.count == 0) return;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Call* c : calls) {
    inputs.push_back(c->communication.out.raw());
    if (to_all) outputs.push_back(c->communication.out.raw());
  }
  if (!to_all) outputs.push_back(Of(calls, own.peer).out.raw());
  cpu::ReduceSlices(inputs, outputs, own.out.dtype(), own.op, share.first, share.count);
}

// Rank r reduces block r of everybody's input into its shard.
void ReduceScatter(Calls calls, int rank) {
  const Communication& own = Of(calls, rank);
  const int64_t count = own.out.numel();
  if (count == 0) return;
  std::vector<const void*> inputs;
  for (const Call* c : calls) inputs.push_back(Raw(c->communication.in) + rank * own.out.bytes().value());
  void* const output = own.out.raw();
  cpu::ReduceSlices(inputs, {&output, 1}, own.out.dtype(), own.op, 0, count);
}

// Rank r writes its shard to its place in everybody's output.
void AllGather(Calls calls, int rank) {
  const Communication& own = Of(calls, rank);
  const int64_t bytes = own.in.bytes().value();
  if (bytes == 0) return;
  std::vector<char*> outputs;
  for (const Call* c : calls) outputs.push_back(Raw(c->communication.out) + rank * bytes);
  CopyToAll(outputs, Raw(own.in), bytes);
}

// Rank r copies share r of the root's tensor to everybody else.
void Broadcast(Calls calls, int rank) {
  const Communication& root = Of(calls, Of(calls, rank).peer);
  const Share share = ShareOf(root.out.numel(), rank, static_cast<int>(calls.size()));
  if (share.count == 0) return;
  const int64_t element = ElementSize(root.out.dtype()), first = share.first * element;
  std::vector<char*> outputs;
  for (const Call* c : calls) outputs.push_back(Raw(c->communication.out) + first);
  CopyToAll(outputs, Raw(root.out) + first, share.count * element);
}

// Rank r writes its shard to its place at the root.
void Gather(Calls calls, int rank) {
  const Communication &own = Of(calls, rank), &root = Of(calls, own.peer);
  const int64_t bytes = own.in.bytes().value();
  if (bytes > 0) Copy(Raw(root.out) + rank * bytes, Raw(own.in), bytes);
}

// Rank r takes its block from the root.
void Scatter(Calls calls, int rank) {
  const Communication &own = Of(calls, rank), &root = Of(calls, own.peer);
  const int64_t bytes = own.out.bytes().value();
  if (bytes > 0) Copy(Raw(own.out), Raw(root.in) + rank * bytes, bytes);
}

// Rank r takes block r of everybody's input.
void AllToAll(Calls calls, int rank) {
  const Communication& own = Of(calls, rank);
  const int64_t bytes = own.out.bytes().value() / static_cast<int64_t>(calls.size());
  if (bytes == 0) return;
  for (size_t i = 0; i < calls.size(); ++i) {
    Copy(Raw(own.out) + static_cast<int64_t>(i) * bytes, Raw(calls[i]->communication.in) + rank * bytes, bytes);
  }
}

void AllToAllV(Calls calls, int rank) {
  const Communication& own = Of(calls, rank);
  const int64_t element = ElementSize(own.out.dtype());
  int64_t to = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Communication& other = calls[i]->communication;
    const int64_t count = own.out_counts[i];
    const int64_t from = std::accumulate(other.in_counts.begin(), other.in_counts.begin() + rank, int64_t{0});
    if (count > 0) Copy(Raw(own.out) + to * element, Raw(other.in) + from * element, count * element);
    to += count;
  }
}

}  // namespace

void DoShare(Calls calls, int rank) {
  switch (Of(calls, rank).kind) {
    case Communication::kAllReduce: return Reduce(calls, rank, true);
    case Communication::kReduce: return Reduce(calls, rank, false);
    case Communication::kReduceScatter: return ReduceScatter(calls, rank);
    case Communication::kAllGather: return AllGather(calls, rank);
    case Communication::kBroadcast: return Broadcast(calls, rank);
    case Communication::kGather: return Gather(calls, rank);
    case Communication::kScatter: return Scatter(calls, rank);
    case Communication::kAllToAll: return AllToAll(calls, rank);
    case Communication::kAllToAllV: return AllToAllV(calls, rank);
    case Communication::kBarrier: return;
    case Communication::kSend: case Communication::kRecv: case Communication::kBatch: break;
  }
  TWOFOLD_CHECK(false, Of(calls, rank).ToString() + " is no collective");
}

}  // namespace twofold::in_memory
