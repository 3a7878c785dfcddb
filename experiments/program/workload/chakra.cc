#include "experiments/program/workload/chakra.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/chakra.pb.h"
#include "experiments/program/workload/order.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace twofold {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::util::ParseDelimitedFromZeroCopyStream;

// Programs store whole numbers in any of these.
std::optional<int64_t> WholeOf(const chakra::Attribute& a) {
  switch (a.value_case()) {
    case chakra::Attribute::kInt32Val: return a.int32_val();
    case chakra::Attribute::kInt64Val: return a.int64_val();
    case chakra::Attribute::kUint32Val: return a.uint32_val();
    case chakra::Attribute::kUint64Val: return static_cast<int64_t>(a.uint64_val());
    case chakra::Attribute::kSint32Val: return a.sint32_val();
    case chakra::Attribute::kSint64Val: return a.sint64_val();
    case chakra::Attribute::kBoolVal: return a.bool_val() ? 1 : 0;
    default: return std::nullopt;
  }
}

// A node's attributes by name.
class Attributes {
 public:
  Attributes(const chakra::Node& node, const std::string& where) : where_(where) {
    for (const chakra::Attribute& a : node.attr()) of_[a.name()] = &a;
  }
  bool Has(const char* name) const { return of_.contains(name); }
  std::string Text(const char* name) const {
    const auto found = of_.find(name);
    if (found == of_.end()) return "";
    if (found->second->value_case() == chakra::Attribute::kStringVal) return found->second->string_val();
    const std::optional<int64_t> number = WholeOf(*found->second);
    return number ? std::to_string(*number) : "";
  }
  int64_t Whole(const char* name, int64_t absent) const {
    const auto found = of_.find(name);
    return found == of_.end() ? absent : WholeOf(*found->second).value_or(absent);
  }
  double Seconds(const char* name) const {
    const auto found = of_.find(name);
    return found == of_.end() ? -1 : found->second->double_val();
  }
  std::vector<int64_t> List(const char* name) const {
    const auto found = of_.find(name);
    if (found == of_.end()) return {};
    return {found->second->int64_list().values().begin(), found->second->int64_list().values().end()};
  }
  absl::StatusOr<int64_t> Needed(const char* name, int64_t least, int64_t most) const {
    const auto found = of_.find(name);
    const std::optional<int64_t> value = found == of_.end() ? std::nullopt : WholeOf(*found->second);
    if (!value) return InvalidArgument(where_, ": has no ", name, "; a node of this type needs it, as a whole number");
    if (*value < least || *value > most)
      return InvalidArgument(where_, ": ", name, " is ", *value, "; expected ", least, " to ", most);
    return *value;
  }

 private:
  std::map<std::string, const chakra::Attribute*, std::less<>> of_;
  const std::string& where_;
};

std::optional<Communication::Kind> OperationOf(int64_t type, bool uneven) {
  switch (type) {
    case chakra::ALL_REDUCE: return Communication::kAllReduce;
    case chakra::REDUCE: return Communication::kReduce;
    case chakra::ALL_GATHER: return Communication::kAllGather;
    case chakra::GATHER: return Communication::kGather;
    case chakra::SCATTER: return Communication::kScatter;
    case chakra::BROADCAST: return Communication::kBroadcast;
    case chakra::ALL_TO_ALL: return uneven ? Communication::kAllToAllV : Communication::kAllToAll;
    case chakra::REDUCE_SCATTER:
    case chakra::REDUCE_SCATTER_BLOCK: return Communication::kReduceScatter;
    case chakra::BARRIER: return Communication::kBarrier;
    default: return std::nullopt;
  }
}

constexpr int64_t kMostRanks = 1 << 20, kMostBytes = int64_t{1} << 46;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& file)
      : file_(file), in_(bytes.data(), static_cast<int>(bytes.size())) {}

  absl::StatusOr<ChakraRank> Read() {
    const google::protobuf::LogSilencer silence;  // the status says it
    chakra::GlobalMetadata metadata;
    bool end = false;
    if (!ParseDelimitedFromZeroCopyStream(&metadata, &in_, &end))
      return InvalidArgument(file_, end ? ": is empty" : ": is not an execution trace",
                             "; expected a file of Chakra, which begins with its GlobalMetadata");
    for (const chakra::Attribute& a : metadata.attr()) {
      if (a.name() == "rank") out_.rank = WholeOf(a).value_or(-1);
      ours_ = ours_ || (a.name() == "program" && a.string_val() == "twofold");
    }
    chakra::Node node;
    for (;;) {
      node.Clear();
      if (!ParseDelimitedFromZeroCopyStream(&node, &in_, &end)) break;
      if (absl::Status added = Add(node); !added.ok()) return added;
    }
    if (!end) return InvalidArgument(file_, ": cannot be read beyond its first ", Counted(std::ssize(ids_), "node"));
    Connect();
    if (absl::Status ordered = FindOrder(); !ordered.ok()) return ordered;
    if (!ours_) FollowStreams();
    PutInOrder();
    return std::move(out_);
  }

 private:
  absl::Status Add(const chakra::Node& node) {
    const auto place = out_.nodes.size();
    const std::string where = StrCat(file_, ": node ", node.id(), " \"", node.name(), "\"");
    if (!places_.try_emplace(node.id(), static_cast<int>(place)).second)
      return InvalidArgument(where, ": another node has the same id");
    const Attributes attributes(node, where);
    WorkloadNode made{.name = node.name(), .stream = attributes.Text("stream")};
    made.host = attributes.Whole("is_cpu_op", 0) != 0;
    chakra::NodeType type = node.type();
    if (type == chakra::COMM_COLL_NODE && !attributes.Has("comm_type")) ++out_.without_type, type = chakra::COMP_NODE;
    switch (type) {
      case chakra::METADATA_NODE: made.kind = WorkloadNode::kMark; break;
      case chakra::COMP_NODE:
      case chakra::MEM_LOAD_NODE:
      case chakra::MEM_STORE_NODE: {
        const double exact = attributes.Seconds("duration_seconds");
        made.seconds = exact >= 0 ? exact : static_cast<double>(node.duration_micros()) * 1e-6;
        if (!(made.seconds < 1e9)) return InvalidArgument(where, ": takes ", made.seconds, " s; expected at most 1e9");
        if (made.seconds == 0 && !ours_) ++out_.without_duration;
        break;
      }
      case chakra::COMM_COLL_NODE:
      case chakra::COMM_SEND_NODE:
      case chakra::COMM_RECV_NODE:
        if (absl::Status status = AddCommunication(node, attributes, where, made); !status.ok()) return status;
        break;
      default: return InvalidArgument(where, ": has type ", node.type(), "; expected METADATA_NODE to COMM_COLL_NODE");
    }
    out_.nodes.push_back(std::move(made));
    ids_.push_back(node.id()), starts_.push_back(node.start_time_micros());
    after_.emplace_back(node.data_deps().begin(), node.data_deps().end());
    callers_.emplace_back(node.ctrl_deps().begin(), node.ctrl_deps().end());
    has_data_ = has_data_ || !after_.back().empty();
    return absl::OkStatus();
  }

  absl::Status AddCommunication(const chakra::Node& node, const Attributes& attributes, const std::string& where,
                                WorkloadNode& made) {
    ChakraRank::Communication& c = out_.communications.emplace_back();
    c = {.node = out_.nodes.size(), .group = attributes.Text("pg_name"), .description = attributes.Text("pg_desc")};
    const bool collective = node.type() == chakra::COMM_COLL_NODE;
    made.bytes_to = attributes.List("bytes_to"), made.bytes_from = attributes.List("bytes_from");
    if (collective) {
      made.kind = WorkloadNode::kCollective;
      const absl::StatusOr<int64_t> type = attributes.Needed("comm_type", chakra::ALL_REDUCE, chakra::BARRIER);
      if (!type.ok()) return type.status();
      made.operation = *OperationOf(*type, !made.bytes_to.empty());
      c.peer = attributes.Whole("root", 0);
    } else {
      const bool send = node.type() == chakra::COMM_SEND_NODE;
      made.kind = send ? WorkloadNode::kSend : WorkloadNode::kRecv;
      made.operation = send ? Communication::kSend : Communication::kRecv;
      const absl::StatusOr<int64_t> peer = attributes.Needed(send ? "comm_dst" : "comm_src", 0, kMostRanks);
      if (!peer.ok()) return peer.status();
      c.peer = *peer;
      made.tag = static_cast<Tag>(std::clamp<int64_t>(attributes.Whole("comm_tag", 0), 0, kMaxTag));
    }
    for (const std::vector<int64_t>* list : {&made.bytes_to, &made.bytes_from}) {
      for (const int64_t bytes : *list) {
        if (bytes < 0 || bytes > kMostBytes)
          return InvalidArgument(where, ": moves ", bytes, " bytes to or from a rank; expected 0 to ", kMostBytes);
      }
    }
    if (made.operation == Communication::kBarrier) return absl::OkStatus();
    const absl::StatusOr<int64_t> bytes = attributes.Needed("comm_size", 0, kMostBytes);
    if (!bytes.ok()) return bytes.status();
    made.bytes = *bytes;
    return absl::OkStatus();
  }

  // From ids to places.
  void Connect() {
    for (size_t n = 0; n < out_.nodes.size(); ++n) {
      std::vector<int>& after = out_.nodes[n].after;
      for (const uint64_t id : (has_data_ ? after_ : callers_)[n]) {
        const auto found = places_.find(id);
        if (found == places_.end())
          ++out_.edges_dropped;
        else
          after.push_back(found->second);
      }
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
    }
  }

  // Kernels may depend on their launches alone (mlcommons/chakra, issue 215): then a stream's order is in no edge. What
  // is added agrees with an order of all nodes, so it makes no cycle, whatever the start times are.
  void FollowStreams() {
    std::map<std::string, int> last;  // by stream
    for (const int n : order_) {
      WorkloadNode& node = out_.nodes[static_cast<size_t>(n)];
      if (node.host || node.stream.empty() || node.kind == WorkloadNode::kMark) continue;
      const auto [before, first] = last.try_emplace(node.stream, n);
      const bool follows = std::any_of(node.after.begin(), node.after.end(), [&](int other) {
        const WorkloadNode& of = out_.nodes[static_cast<size_t>(other)];
        return !of.host && of.stream == node.stream;
      });
      if (!first && !follows) node.after.push_back(before->second), ++out_.edges_added;
      before->second = n;
    }
  }

  absl::Status FindOrder() {
    order_ = OrderOf(out_.nodes, starts_);
    if (order_.size() == out_.nodes.size()) return absl::OkStatus();
    std::string text;
    for (const int n : CycleOf(out_.nodes, order_)) {
      const auto node = static_cast<size_t>(n);
      StrAppend(&text, text.empty() ? "" : " -> ", ids_[node], " \"", out_.nodes[node].name, "\"");
    }
    return InvalidArgument(file_, ": nodes wait for each other in a cycle: ", text,
                           "; remove one of these dependencies");
  }

  void PutInOrder() {
    std::vector<int> place(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) place[static_cast<size_t>(order_[i])] = static_cast<int>(i);
    std::vector<WorkloadNode> nodes(order_.size());
    for (size_t n = 0; n < order_.size(); ++n) {
      for (int& before : out_.nodes[n].after) before = place[static_cast<size_t>(before)];
      nodes[static_cast<size_t>(place[n])] = std::move(out_.nodes[n]);
    }
    out_.nodes = std::move(nodes);
    for (ChakraRank::Communication& c : out_.communications) c.node = static_cast<size_t>(place[c.node]);
    std::sort(out_.communications.begin(), out_.communications.end(),
              [](const auto& a, const auto& b) { return a.node < b.node; });
  }

  const std::string& file_;
  ArrayInputStream in_;
  ChakraRank out_;
  bool ours_ = false, has_data_ = false;
  std::vector<std::vector<uint64_t>> callers_;  // by node: ids
  std::unordered_map<uint64_t, int> places_;
  std::vector<int> order_;                    // places of nodes, each after all that it follows
  std::vector<uint64_t> ids_, starts_;        // by node
  std::vector<std::vector<uint64_t>> after_;  // by node: ids
};

}  // namespace

absl::StatusOr<ChakraRank> ReadChakra(std::string_view bytes, const std::string& file) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    return InvalidArgument(file, ": has ", bytes.size(), " bytes; at most 2 GiB can be read");
  return Reader(bytes, file).Read();
}

}  // namespace twofold
