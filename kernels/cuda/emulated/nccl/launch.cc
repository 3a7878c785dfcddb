#include "kernels/cuda/emulated/nccl/launch.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulated/nccl/arithmetic.h"

namespace twofold::emulated {
namespace {

constexpr const char* kFunctions[] = {"ncclAllReduce",     "ncclReduce",   "ncclBroadcast", "ncclAllGather",
                                      "ncclReduceScatter", "ncclAlltoAll", "ncclSend",      "ncclRecv"};

bool Reduces(Function f) {
  return f == Function::kAllReduce || f == Function::kReduce || f == Function::kReduceScatter;
}
bool HasRoot(Function f) { return f == Function::kReduce || f == Function::kBroadcast; }
// Whether a rank's input has one part for each rank.
bool InParts(Function f) { return f == Function::kReduceScatter || f == Function::kAlltoAll; }

}  // namespace

std::string Describe(const Described& call) {
  const auto function = static_cast<Function>(call.function);
  std::string text =
      absl::StrCat(kFunctions[call.function], " of ", call.count, " ", NameOf(static_cast<ncclDataType_t>(call.type)));
  if (Reduces(function)) absl::StrAppend(&text, ", ", NameOf(static_cast<ncclRedOp_t>(call.op)));
  if (HasRoot(function)) absl::StrAppend(&text, ", root ", call.root);
  if (call.of > 1) absl::StrAppend(&text, ", ", call.index + 1, " of ", call.of, " in a group");
  return text;
}

Described Operation::Description() const {
  return {.function = static_cast<uint32_t>(function),
          .type = static_cast<uint32_t>(type),
          .op = Reduces(function) ? static_cast<uint32_t>(op) : 0,
          .root = HasRoot(function) ? static_cast<uint32_t>(root) : 0,
          .count = count};
}
std::string Operation::Describe() const {
  std::string text = emulated::Describe(Description());
  if (IsMessage()) absl::StrAppend(&text, function == Function::kSend ? " to " : " from ", root);
  return text;
}

size_t Operation::FromBytes(int rank, int size) const {
  const size_t bytes = count * SizeOf(type);
  switch (function) {
    case Function::kRecv: return 0;
    case Function::kBroadcast: return rank == root ? bytes : 0;
    default: return InParts(function) ? bytes * static_cast<size_t>(size) : bytes;
  }
}
size_t Operation::ToBytes(int rank, int size) const {
  const size_t bytes = count * SizeOf(type);
  switch (function) {
    case Function::kSend: return 0;
    case Function::kReduce: return rank == root ? bytes : 0;
    case Function::kAllGather:
    case Function::kAlltoAll: return bytes * static_cast<size_t>(size);
    default: return bytes;
  }
}

// ---- Collectives ----

Collective::Collective(Clique* clique, const Operation& operation, uint32_t index, uint32_t of)
    : clique_(clique),
      operation_(operation),
      described_(operation.Description()),
      element_(SizeOf(operation.type)),
      parts_(InParts(operation.function) ? static_cast<size_t>(clique->size()) : 1),
      chunk_(kStageBytes / (parts_ * element_)) {
  described_.index = index, described_.of = of;
}

bool Collective::AllReached(uint64_t round, std::atomic<uint64_t> Place::*counter) const {
  for (int r = 0; r < clique_->size(); ++r) {
    if ((clique_->place(r).*counter).load(std::memory_order_acquire) < round) return false;
  }
  return true;
}

bool Collective::Advance(const std::function<void(const std::string&)>& report) {
  Place& mine = clique_->mine();
  while (!stuck_) {
    if (!written_) {
      round_ = mine.written.load(std::memory_order_relaxed) + 1;
      if (!AllReached(round_ - 1, &Place::read)) return false;
      mine.call = described_;
      Write();
      written_ = true;
      mine.written.store(round_, std::memory_order_release);
      clique_->RingAll();
    }
    if (!AllReached(round_, &Place::written)) return false;
    if (!Agree(report)) break;
    Read();
    mine.read.store(round_, std::memory_order_release);
    clique_->RingAll();
    written_ = false;
    done_ += std::min(chunk_, operation_.count - done_);
    if (done_ == operation_.count) return true;
  }
  return false;
}

bool Collective::Agree(const std::function<void(const std::string&)>& report) {
  for (int r = 0; r < clique_->size(); ++r) {
    const Described& other = clique_->place(r).call;
    if (other == described_) continue;
    stuck_ = true;
    report(absl::StrCat("collectives differ: ", Describe(described_), "; rank ", r, " calls ", Describe(other)));
    return false;
  }
  return true;
}

void Collective::Write() {
  const size_t n = std::min(chunk_, operation_.count - done_) * element_;
  const auto* from = static_cast<const std::byte*>(operation_.from) + done_ * element_;
  std::byte* stage = clique_->mine().stage;
  if (operation_.FromBytes(clique_->rank(), clique_->size()) == 0) return;
  for (size_t part = 0; part < parts_; ++part)
    std::memcpy(stage + part * chunk_ * element_, from + part * operation_.count * element_, n);
}

void Collective::Read() {
  const size_t elements = std::min(chunk_, operation_.count - done_), n = elements * element_;
  const int rank = clique_->rank(), size = clique_->size(), root = operation_.root;
  auto* to = static_cast<std::byte*>(operation_.to) + done_ * element_;
  const auto stage = [&](int r, int part) {
    return clique_->place(r).stage + static_cast<size_t>(part) * chunk_ * element_;
  };
  const auto reduce = [&](int part, int first, size_t begin, size_t end) {
    std::array<const std::byte*, kMaxRanks> from;
    for (int r = 0; r < size; ++r) from[static_cast<size_t>(r)] = stage(r, part) + begin * element_;
    emulated::Reduce({from.data(), static_cast<size_t>(size)}, first, to + begin * element_, end - begin,
                     operation_.type, operation_.op);
  };
  switch (operation_.function) {
    case Function::kAllReduce: {
      const size_t block = (operation_.count + static_cast<size_t>(size) - 1) / static_cast<size_t>(size);
      for (size_t begin = 0; begin < elements;) {
        const size_t index = (done_ + begin) / block;
        const size_t end = std::min(elements, (index + 1) * block - done_);
        reduce(0, (static_cast<int>(index) + 1) % size, begin, end);
        begin = end;
      }
      break;
    }
    case Function::kReduceScatter: reduce(rank, (rank + 1) % size, 0, elements); break;
    case Function::kReduce:
      if (rank == root) reduce(0, (root + 1) % size, 0, elements);
      break;
    case Function::kBroadcast: std::memcpy(to, stage(root, 0), n); break;
    case Function::kAllGather:
      for (int r = 0; r < size; ++r)
        std::memcpy(to + static_cast<size_t>(r) * operation_.count * element_, stage(r, 0), n);
      break;
    case Function::kAlltoAll:
      for (int r = 0; r < size; ++r)
        std::memcpy(to + static_cast<size_t>(r) * operation_.count * element_, stage(r, rank), n);
      break;
    case Function::kSend:
    case Function::kRecv: break;
  }
}

// ---- Messages ----

Message::Message(Clique* clique, const Operation& operation)
    : clique_(clique),
      operation_(operation),
      channel_(operation.function == Function::kSend ? &clique->channel(clique->rank(), operation.root)
                                                     : &clique->channel(operation.root, clique->rank())),
      bytes_(operation.count * SizeOf(operation.type)) {}

bool Message::Advance(const std::function<void(const std::string&)>& report) {
  if (stuck_) return false;
  return operation_.function == Function::kSend ? AdvanceSend() : AdvanceRecv(report);
}

bool Message::AdvanceSend() {
  const uint64_t written = channel_->written.load(std::memory_order_relaxed);
  if (channel_->read.load(std::memory_order_acquire) != written) return false;
  if (begun_ && done_ == bytes_) return true;
  begun_ = true;
  channel_->call = operation_.Description();
  channel_->bytes = std::min(kChannelBytes, bytes_ - done_);
  std::memcpy(channel_->piece, static_cast<const std::byte*>(operation_.from) + done_, channel_->bytes);
  done_ += channel_->bytes;
  channel_->written.store(written + 1, std::memory_order_release);
  clique_->Ring(operation_.root);
  return false;
}

bool Message::AdvanceRecv(const std::function<void(const std::string&)>& report) {
  const uint64_t read = channel_->read.load(std::memory_order_relaxed);
  if (channel_->written.load(std::memory_order_acquire) == read) return false;
  Described expected = operation_.Description();
  expected.function = static_cast<uint32_t>(Function::kSend);
  if (channel_->call != expected) {
    stuck_ = true;
    report(
        absl::StrCat("messages differ: ", operation_.Describe(), ", which calls ", emulated::Describe(channel_->call)));
    return false;
  }
  const size_t bytes = channel_->bytes;
  std::memcpy(static_cast<std::byte*>(operation_.to) + done_, channel_->piece, bytes);
  done_ += bytes;
  channel_->read.store(read + 1, std::memory_order_release);
  clique_->Ring(operation_.root);
  return done_ == bytes_;
}

// ---- Launches ----

Launch::Launch(Clique* clique, const std::vector<Operation>& operations) : clique_(clique) {
  uint32_t index = 0;
  const auto of =
      static_cast<uint32_t>(std::ranges::count_if(operations, [](const Operation& o) { return !o.IsMessage(); }));
  std::map<std::pair<Function, int>, std::deque<Message>> messages;
  for (const Operation& o : operations) {
    if (o.IsMessage())
      messages[{o.function, o.root}].emplace_back(clique, o);
    else
      collectives_.emplace_back(clique, o, index++, of);
  }
  for (auto& [pair, queue] : messages) messages_.push_back(std::move(queue));
}

bool Launch::Run(const std::atomic<bool>& stop, const std::function<void(const std::string&)>& report) {
  return clique_->Until(stop, [&] {
    while (!collectives_.empty() && collectives_.front().Advance(report)) collectives_.pop_front();
    for (std::deque<Message>& queue : messages_) {
      while (!queue.empty() && queue.front().Advance(report)) queue.pop_front();
    }
    return collectives_.empty() &&
           std::ranges::all_of(messages_, [](const std::deque<Message>& q) { return q.empty(); });
  });
}

}  // namespace twofold::emulated
