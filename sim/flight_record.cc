#include "sim/flight_record.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::sim {

struct alignas(64) FlightRecord::Header {
  std::atomic<Turn> turn{Turn{kNobody, true}};
  std::atomic<uint64_t> progress{0};
  static_assert(std::atomic<Turn>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free,
                "shared by processes");
};

// All zeros at first, which means that the rank has called nothing. The program's string literals have the same
// addresses in parent and child.
struct FlightRecord::Slot {
  Call call;
  uint64_t launched;           // number of operations since that call
  std::string_view operation;  // the last of these
  uint32_t group_length;       // of what there was room for
  bool group_cut;
  char group[179];
};

absl::StatusOr<std::unique_ptr<FlightRecord>> FlightRecord::Make(int ranks) {
  static_assert(sizeof(Slot) == 256, "four cache lines");
  const size_t bytes = sizeof(Header) + static_cast<size_t>(ranks) * sizeof(Slot);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return Internal("mmap of ", bytes, " bytes for the flight record of ", ranks, " ranks: ", std::strerror(errno));
  }
  new (memory) Header;
  return std::unique_ptr<FlightRecord>(new FlightRecord(memory, bytes));
}

FlightRecord::~FlightRecord() { munmap(memory_, bytes_); }

FlightRecord::Header& FlightRecord::header() const { return *static_cast<Header*>(memory_); }

FlightRecord::Slot& FlightRecord::slot(int rank) const {
  return reinterpret_cast<Slot*>(static_cast<std::byte*>(memory_) + sizeof(Header))[rank];
}

void FlightRecord::Progress() {  // there is only one writer
  header().progress.store(header().progress.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void FlightRecord::SetTurn(Turn turn) {
  header().turn.store(turn, std::memory_order_relaxed);
  Progress();
}

void FlightRecord::Launched(int rank, std::string_view operation) {
  Slot& s = slot(rank);
  ++s.launched;
  s.operation = operation;
  Progress();
}

void FlightRecord::Communicated(int rank, const Call& call, std::string_view group) {
  Slot& s = slot(rank);
  s.call = call;
  s.launched = 0;
  const size_t length = std::min(group.size(), sizeof s.group);
  std::memcpy(s.group, group.data(), length);
  s.group_length = static_cast<uint32_t>(length);
  s.group_cut = length < group.size();
  Progress();
}

FlightRecord::Turn FlightRecord::turn() const { return header().turn.load(std::memory_order_relaxed); }
uint64_t FlightRecord::progress() const { return header().progress.load(std::memory_order_relaxed); }

std::string FlightRecord::LastCall(int rank) const {
  const Slot& s = slot(rank);
  const bool communicated = s.call.sequence > 0;
  std::string text = "it has not communicated yet";
  if (communicated) {
    text = "its last call was ";
    if (!s.call.operation.empty()) StrAppend(&text, s.call.operation, " (", s.call.bytes, " bytes), ");
    StrAppend(&text, s.call.counted, " ", s.call.sequence, " of group ", std::string_view(s.group, s.group_length),
              s.group_cut ? "..." : "");
  }
  if (s.launched > 0) {
    StrAppend(&text, communicated ? "; since then it launched " : "; it launched ", s.launched,
              s.launched == 1 ? " operation, " : " operations, the last one ", s.operation);
  }
  return text;
}

// ---- Aside ----

FlightRecord::Aside::Aside(FlightRecord* record) : record_(record) {
  if (record_ == nullptr) return;
  before_ = record_->turn();
  record_->SetTurn({before_.rank, true});
}

FlightRecord::Aside::~Aside() {
  if (record_ != nullptr) record_->SetTurn(before_);
}

}  // namespace twofold::sim
