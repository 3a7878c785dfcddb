#include "backends/control/call_log.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold::control {
namespace {

// Mixes `value` into `hash` (the finalizer of SplitMix64: Steele, Lea and Flood 2014).
uint64_t Mix(uint64_t hash, uint64_t value) {
  uint64_t x = hash + 0x9e3779b97f4a7c15u + value * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t HashOf(const Record& r) {
  uint64_t hash = 0;
  for (int64_t value : {int64_t{r.kind()}, int64_t{r.op()}, int64_t{r.root()}, int64_t{r.dtype()}, r.count()}) {
    hash = Mix(hash, static_cast<uint64_t>(value));
  }
  return hash;
}

// The hash sum of what `rank` sends to others minus what it expects of them; each hash includes sender, receiver and
// call number.
uint64_t BalanceOf(const Record& r, uint64_t sequence, int rank) {
  uint64_t sum = 0;
  auto hash = [sequence](int from, int to, int64_t count) {
    return Mix(Mix(Mix(sequence, static_cast<uint64_t>(from)), static_cast<uint64_t>(to)),
               static_cast<uint64_t>(count));
  };
  for (int other = 0; other < r.in_counts_size(); ++other) sum += hash(rank, other, r.in_counts(other));
  for (int other = 0; other < r.out_counts_size(); ++other) sum -= hash(other, rank, r.out_counts(other));
  return sum;
}

// False: the record comes from another build, and its numbers have no names here.
bool IsKnown(const Record& r) {
  return r.kind() >= 0 && r.kind() < static_cast<int>(Communication::kKinds) && r.op() >= 0 &&
         r.op() <= static_cast<int>(ReduceOp::kMax) && r.dtype() >= 0 && r.dtype() <= static_cast<int>(DType::kU8);
}

}  // namespace

Record RecordOf(const Communication& c) {
  Record r;
  r.set_kind(c.kind);
  if (host::Reduces(c.kind)) r.set_op(static_cast<int>(c.op));
  if (host::Rooted(c.kind)) r.set_root(c.peer);
  if (const Tensor* side = host::EqualSide(c)) {
    r.set_dtype(static_cast<int>(side->dtype()));
    if (c.kind != Communication::kAllToAllV) r.set_count(side->numel());
  }
  r.set_bytes(c.bytes().value());
  if (c.kind == Communication::kAllToAllV) {
    r.mutable_in_counts()->Assign(c.in_counts.begin(), c.in_counts.end());
    r.mutable_out_counts()->Assign(c.out_counts.begin(), c.out_counts.end());
  }
  return r;
}

Record RecordOfMessage(Tag tag, Bytes bytes) {
  Record r;
  r.set_kind(Communication::kSend);
  r.set_root(tag);
  r.set_dtype(static_cast<int>(DType::kU8));
  r.set_count(bytes.value());
  r.set_bytes(bytes.value());
  return r;
}

uint64_t ChildGroupId(uint64_t parent, uint64_t split, int color) {
  return Mix(Mix(parent, split), static_cast<uint64_t>(color));
}

host::GroupIdentity MessagesOf(const host::GroupIdentity& group, int from, int to) {
  constexpr uint64_t kNoSplit = uint64_t{1} << 63;
  const int sender = group.ranks[static_cast<size_t>(from)], receiver = group.ranks[static_cast<size_t>(to)];
  return {.id = ChildGroupId(group.id, kNoSplit + static_cast<uint64_t>(from), to),
          .label = StrCat(group.label, ", from rank ", sender, " to rank ", receiver),
          .ranks = {sender, receiver}};
}

bool SameRecord(const Record& a, const Record& b) {
  return a.kind() == b.kind() && a.op() == b.op() && a.root() == b.root() && a.dtype() == b.dtype() &&
         a.count() == b.count();
}

std::string ToString(const Record& r) {
  if (!IsKnown(r)) return StrCat("a call of unknown kind ", r.kind());
  const auto kind = static_cast<Communication::Kind>(r.kind());
  std::string text(KindName(kind));
  if (kind == Communication::kBarrier) return text;
  if (kind == Communication::kSend) return StrCat("a message of ", r.bytes(), " bytes with tag ", r.root());
  if (host::Reduces(kind)) StrAppend(&text, "(", ReduceOpName(static_cast<ReduceOp>(r.op())), ")");
  const auto dtype = static_cast<DType>(r.dtype());
  StrAppend(&text, " of ", DTypeName(dtype), "[", r.bytes() / ElementSize(dtype), "]");
  if (host::Rooted(kind)) {
    const bool from = kind == Communication::kBroadcast || kind == Communication::kScatter;
    StrAppend(&text, from ? " from root " : " to root ", r.root());
  }
  return StrCat(text, " (", r.bytes(), " bytes)");
}

void CallLog::Add(Record record) {
  const uint64_t hash = HashOf(record);
  std::lock_guard lock(mutex_);
  ++sequence_;
  const uint64_t digest = Mix(kept_.empty() ? 0 : kept_.back().digest, hash);
  const uint64_t balance = (kept_.empty() ? 0 : kept_.back().balance) + BalanceOf(record, sequence_, rank_);
  if (kept_.size() == most_kept_) kept_.pop_front();
  kept_.push_back({std::move(record), digest, balance});
}

Point CallLog::PointAt(uint64_t sequence) const {
  Point p;
  p.set_group(group_->id);
  p.set_sequence(sequence);
  p.set_ranks(static_cast<int>(group_->ranks.size()));
  if (sequence == 0) return p;
  const Entry& entry = kept_[kept_.size() - 1 - static_cast<size_t>(sequence_ - sequence)];
  p.set_digest(entry.digest);
  p.set_balance(entry.balance);
  return p;
}

void CallLog::TakePoints(google::protobuf::RepeatedPtrField<Point>& out) {
  std::lock_guard lock(mutex_);
  const bool few = sequence_ - told_ <= kFew;
  const uint64_t oldest = sequence_ - kept_.size() + 1;
  for (uint64_t s = std::max(told_ + 1, oldest); s <= sequence_; ++s) {
    if (few || s % kStride == 0) *out.Add() = PointAt(s);
  }
  told_ = sequence_;
}

Point CallLog::LastPoint() const {
  std::lock_guard lock(mutex_);
  return PointAt(sequence_);
}

GroupLog CallLog::Records() const {
  std::lock_guard lock(mutex_);
  GroupLog log;
  log.set_group(group_->id);
  log.set_label(group_->label);
  log.mutable_ranks()->Assign(group_->ranks.begin(), group_->ranks.end());
  log.set_first(sequence_ - kept_.size() + 1);
  for (const Entry& entry : kept_) *log.add_records() = entry.record;
  return log;
}

}  // namespace twofold::control
