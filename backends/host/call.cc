#include "backends/host/call.h"

#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold::host {

using Kind = Communication::Kind;

std::string Call::ToString() const {
  if (split && sequence == 0) return StrCat("the start of group ", *group);
  if (split) return StrCat("split ", sequence, " of group ", *group);
  return StrCat(WithBytes(communication), ", ", communication.is_collective() ? "collective " : "message ", sequence,
                " of group ", *group);
}

std::shared_ptr<const std::string> GroupLabel(const std::string& name, const std::vector<int>& world_ranks) {
  if (name == "world") return std::make_shared<const std::string>(name);
  return std::make_shared<const std::string>(StrCat(name, " (ranks ", absl::StrJoin(world_ranks, ", "), ")"));
}

bool Reduces(Kind k) { return k == Kind::kAllReduce || k == Kind::kReduceScatter || k == Kind::kReduce; }
bool Rooted(Kind k) { return k == Kind::kBroadcast || k == Kind::kReduce || k == Kind::kGather || k == Kind::kScatter; }

const Tensor* EqualSide(const Communication& c) {
  switch (c.kind) {
    case Kind::kBarrier: return nullptr;
    case Kind::kAllGather:
    case Kind::kGather: return &c.in;
    default: return &c.out;
  }
}

bool SameCollective(const Communication& a, const Communication& b) {
  if (a.kind != b.kind || (Reduces(a.kind) && a.op != b.op) || (Rooted(a.kind) && a.peer != b.peer)) return false;
  const Tensor *x = EqualSide(a), *y = EqualSide(b);
  if (x == nullptr) return true;
  return x->dtype() == y->dtype() && (a.kind == Kind::kAllToAllV || x->numel() == y->numel());
}

std::string WithBytes(const Communication& c) { return StrCat(c.ToString(), " (", c.bytes().value(), " bytes)"); }

std::string MismatchText(const std::string& group, const std::string& where, int rank_a, const std::string& a,
                         int rank_b, const std::string& b) {
  if (rank_b < rank_a) return MismatchText(group, where, rank_b, b, rank_a, a);
  return StrCat("collective mismatch in group ", group, ", ", where, ": rank ", rank_a, " calls ", a, ", rank ", rank_b,
                " calls ", b);
}

}  // namespace twofold::host
