#include "backends/simulated/rank_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"

namespace twofold {
namespace {

chakra::Attribute& Attribute(chakra::Node& node, const char* name) {
  chakra::Attribute& attribute = *node.add_attr();
  attribute.set_name(name);
  return attribute;
}

chakra::CollectiveType TypeOf(Communication::Kind kind) {
  switch (kind) {
    case Communication::kAllReduce: return chakra::ALL_REDUCE;
    case Communication::kAllGather: return chakra::ALL_GATHER;
    case Communication::kReduceScatter: return chakra::REDUCE_SCATTER;
    case Communication::kBroadcast: return chakra::BROADCAST;
    case Communication::kReduce: return chakra::REDUCE;
    case Communication::kGather: return chakra::GATHER;
    case Communication::kScatter: return chakra::SCATTER;
    case Communication::kAllToAll:
    case Communication::kAllToAllV: return chakra::ALL_TO_ALL;
    default: return chakra::BARRIER;
  }
}

// As PyTorch counts them: what a rank puts in; of a scatter, in which only the root does, what it gets from it.
int64_t BytesIn(const Communication& c) {
  const Tensor& in = c.in.empty() ? c.out : c.in;
  return in.empty() ? 0 : in.bytes().value();
}

}  // namespace

chakra::Node RankGraph::Next(const sim::Timeline& line, std::string_view name, chakra::NodeType type, double seconds) {
  Line& own = lines_[&line];
  chakra::Node node;
  node.set_id(static_cast<uint64_t>(next_));
  node.set_name(std::string(name));
  node.set_type(type);
  std::vector<int64_t> after = std::exchange(own.awaited, {});
  if (own.last >= 0) after.push_back(own.last);
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  for (const int64_t before : after) node.add_data_deps(static_cast<uint64_t>(before));
  node.set_duration_micros(static_cast<uint64_t>(std::llround(seconds * 1e6)));
  if (seconds > 0) Attribute(node, "duration_seconds").set_double_val(seconds);
  Attribute(node, "is_cpu_op").set_bool_val(&line == &host_);
  Attribute(node, "stream").set_string_val(own.name);
  return node;
}

int64_t RankGraph::Add(const sim::Timeline& line, const chakra::Node& node) {
  Line& own = lines_[&line];
  if (goal_ != nullptr) AddToGoal(own.name, node);
  if (chakra_) {
    google::protobuf::io::StringOutputStream out(&nodes_);
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(node, &out);
  }
  return own.last = next_++;
}

void RankGraph::AddToGoal(const std::string& stream, const chakra::Node& node) {
  const std::vector<int64_t> after(node.data_deps().begin(), node.data_deps().end());
  if (node.type() != chakra::COMP_NODE && node.type() != chakra::METADATA_NODE)
    return goal_->Communicates(next_, after, stream);
  double seconds = 0;
  for (const chakra::Attribute& attribute : node.attr())
    if (attribute.name() == "duration_seconds") seconds = attribute.double_val();
  goal_->Works(next_, after, stream, seconds);
}

void RankGraph::OpenUntil(sim::TimePointPtr done) {
  constexpr size_t kMany = 64;
  if (open_.size() >= kMany) std::erase_if(open_, [](const sim::TimePointPtr& p) { return p->known(); });
  open_.push_back(std::move(done));
}

std::string RankGraph::TakeGoal() {
  if (goal_ == nullptr) return "";
  for (const sim::TimePointPtr& done : std::exchange(open_, {})) block_(done);
  return goal_->Take();
}

int64_t RankGraph::Join(const sim::Timeline& line) {
  const Line& own = lines_[&line];
  return own.awaited.empty() ? own.last : Add(line, Next(line, "", chakra::COMP_NODE, 0));
}

void RankGraph::Advances(const sim::Timeline& line, double seconds, double not_before, std::string_view name) {
  if (&line == &host_) {
    seconds += std::max(0.0, not_before - line.time());  // it waits for no one
  } else if (not_before > 0) {                           // it was issued then
    Line& own = lines_[&line];
    const int64_t host = lines_[&host_].last;
    if (host != std::exchange(own.host, host)) own.awaited.push_back(host);
  }
  if (seconds > 0) Add(line, Next(line, name, chakra::COMP_NODE, seconds));
}

void RankGraph::Waits(const sim::Timeline& line, const sim::TimePoint& point) {
  if (point.node >= 0) lines_[&line].awaited.push_back(point.node);
}

void RankGraph::Records(const sim::Timeline& line, sim::TimePoint& point) { point.node = Join(line); }

int RankGraph::GroupOf(const std::string& name, const std::vector<int>& ranks) {
  const auto [it, fresh] = numbers_.try_emplace({name, ranks}, static_cast<int>(groups_.size()));
  if (fresh) groups_.push_back({name, ranks});
  return it->second;
}

int64_t RankGraph::Communicates(const sim::Timeline& line, const std::string& group, const std::vector<int>& ranks,
                                const Communication& c, sim::TimePoint& done) {
  const std::string number = std::to_string(GroupOf(group, ranks));
  if (c.is_collective()) {
    chakra::Node node = Next(line, KindName(c.kind), chakra::COMM_COLL_NODE, 0);
    Attribute(node, "comm_type").set_int64_val(TypeOf(c.kind));
    Attribute(node, "comm_size").set_int64_val(BytesIn(c));
    Attribute(node, "pg_name").set_string_val(number);
    if (c.peer != 0) Attribute(node, "root").set_int64_val(c.peer);
    for (const auto& [name, counts] : {std::pair("bytes_to", &c.in_counts), std::pair("bytes_from", &c.out_counts)}) {
      if (c.kind != Communication::kAllToAllV) break;
      auto& list = *Attribute(node, name).mutable_int64_list();
      for (const int64_t count : *counts) list.add_values(count * ElementSize(c.in.dtype()));
    }
    return done.node = Add(line, node);
  }
  std::vector<P2p> messages = c.batch;
  if (c.kind == Communication::kSend) messages = {{P2p::kSend, c.in, c.peer, c.tag}};
  if (c.kind == Communication::kRecv) messages = {{P2p::kRecv, c.out, c.peer, c.tag}};
  const Line before = lines_[&line];  // all of them follow the same
  std::vector<int64_t> parts;
  for (const P2p& message : messages) {
    const bool send = message.kind == P2p::kSend;
    const int peer = message.peer == kAnySource ? -1 : ranks[static_cast<size_t>(message.peer)];
    lines_[&line] = before;
    chakra::Node node = Next(line, send ? "send" : "recv", send ? chakra::COMM_SEND_NODE : chakra::COMM_RECV_NODE, 0);
    Attribute(node, "comm_size").set_int64_val(message.tensor.bytes().value());
    Attribute(node, "comm_src").set_int32_val(send ? rank_ : peer);
    Attribute(node, "comm_dst").set_int32_val(send ? peer : rank_);
    Attribute(node, "comm_tag").set_int32_val(message.tag);
    Attribute(node, "pg_name").set_string_val(number);
    parts.push_back(Add(line, node));
  }
  lines_[&line].awaited = parts;
  done.node = Join(line);
  return parts.empty() ? -1 : parts.front();
}

void RankGraph::Mark(std::string_view name) { Add(host_, Next(host_, name, chakra::METADATA_NODE, 0)); }

}  // namespace twofold
