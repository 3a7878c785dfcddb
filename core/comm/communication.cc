#include "core/comm/communication.h"

#include <algorithm>
#include <array>

#include "core/base/strings.h"

namespace twofold {
namespace {

Bytes Size(const Tensor& t) { return t.empty() ? Bytes(0) : t.bytes(); }

std::string PeerName(int peer) { return peer == kAnySource ? "any rank" : StrCat("rank ", peer); }

std::string Message(Communication::Kind kind, const Tensor& t, int peer, Tag tag) {
  return StrCat(KindName(kind), " of ", t.ToString(), kind == Communication::kSend ? " to " : " from ", PeerName(peer),
                ", tag ", tag);
}

std::string BatchText(const std::vector<P2p>& batch) {
  std::string text = "batch of [";
  for (size_t i = 0; i < batch.size(); ++i) {
    const P2p& m = batch[i];
    const auto kind = m.kind == P2p::kSend ? Communication::kSend : Communication::kRecv;
    StrAppend(&text, i == 0 ? "" : "; ", Message(kind, m.tensor, m.peer, m.tag));
  }
  return text + "]";
}

}  // namespace

std::string_view KindName(Communication::Kind kind) {
  constexpr std::array<std::string_view, Communication::kKinds> kNames = {
      "send",   "recv",   "batch",   "all_reduce", "all_gather",   "reduce_scatter", "broadcast",
      "reduce", "gather", "scatter", "all_to_all", "all_to_all_v", "barrier"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<Communication::Kind> KindNamed(std::string_view name) {
  for (size_t k = 0; k < Communication::kKinds; ++k) {
    const auto kind = static_cast<Communication::Kind>(k);
    if (KindName(kind) == name) return kind;
  }
  return std::nullopt;
}

Bytes Communication::bytes() const {
  if (kind != kBatch) return std::max(Size(in), Size(out));
  Bytes sent, received;
  for (const P2p& m : batch) (m.kind == P2p::kSend ? sent : received) += m.tensor.bytes();
  return std::max(sent, received);
}

std::string Communication::ToString() const {
  const Tensor& larger = Size(in) > Size(out) || out.empty() ? in : out;
  switch (kind) {
    case kSend: return Message(kind, in, peer, tag);
    case kRecv: return Message(kind, out, peer, tag);
    case kBatch: return BatchText(batch);
    case kBarrier: return "barrier";
    case kAllReduce:
    case kReduceScatter: return StrCat(KindName(kind), "(", ReduceOpName(op), ") of ", larger.ToString());
    case kReduce: return StrCat("reduce(", ReduceOpName(op), ") of ", larger.ToString(), " to root ", peer);
    case kBroadcast:
    case kScatter: return StrCat(KindName(kind), " of ", larger.ToString(), " from root ", peer);
    case kGather: return StrCat("gather of ", larger.ToString(), " to root ", peer);
    case kAllGather:
    case kAllToAll:
    case kAllToAllV: return StrCat(KindName(kind), " of ", larger.ToString());
  }
  return "";
}

Communication Communication::Borrowed() const {
  Communication c{.kind = kind,
                  .in = in.Borrowed(),
                  .out = out.Borrowed(),
                  .op = op,
                  .peer = peer,
                  .tag = tag,
                  .in_counts = in_counts,
                  .out_counts = out_counts};
  c.batch.reserve(batch.size());
  for (const P2p& m : batch) c.batch.push_back({m.kind, m.tensor.Borrowed(), m.peer, m.tag});
  return c;
}

}  // namespace twofold
