#include "sim/collectives/nccl_costs.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::sim {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// NCCL's latencies in microseconds: base, NVLINK, NET. Zeros are protocols that NCCL lacks; they are never used.
constexpr NcclHops kLatencies[5][3] = {
    {{6.6, 0.6, 2.7}, {14.0, 1.9, 4.0}, {8.4, 3.4, 14.0}},   // ring
    {{6.8, 0.6, 5.0}, {14.0, 1.25, 8.5}, {8.4, 4.0, 14.0}},  // tree
    {{0, 0, 0}, {0, 0, 0}, {0, 25, 18}},                     // nvls
    {{0, 0, 0}, {0, 0, 0}, {0, 25, 20.9}},                   // nvls_tree
    {{0, 0, 0}, {0, 0, 0}, {8.4, 3.4, 2.7}},                 // direct: see nccl_costs.h
};

// GB/s; per-channel figures are multiplied by the channels. `link`: of one NVLink, as NCCL assumes and by its data
// sheet.
struct Generation {
  std::string_view name;
  int channels;
  double link, link_data_sheet, nvls_efficiency;
  std::array<double, 3> ll, ring_ll128, tree, tree_ll128;
};
constexpr Generation kGenerations[] = {
    {"volta", 12, 20.0, 25, 0, {39.0, 39.0, 20.4}, {20, 20, 20}, {26.5, 18.5, 10.0}, {20, 20, 20}},
    {"ampere", 24, 20.0, 25, 0, {87.7, 22.5, 19.0}, {20, 20, 20}, {24.0, 23.6, 17.8}, {20, 20, 20}},
    {"hopper", 16, 20.6, 25, 0.85, {141, 45, 35}, {36.7, 36.7, 36.7}, {38.7, 41.4, 36.0}, {36.7, 36.7, 29.0}},
    {"blackwell", 32, 40.1, 50, 0.74, {282, 90, 70}, {40, 40, 40}, {70, 42.8, 24}, {55.6, 31.67, 20}},
};

size_t NodeClass(int nodes) { return nodes == 1 ? 0 : nodes < 4 ? 1 : 2; }

absl::Status Wrong(std::string_view field, const auto& value, const auto&... right) {
  return InvalidArgument("library.nccl.", field, " = ", value, ": ", right...);
}

absl::Status CheckShare(std::string_view field, double value) {
  if (value > 0 && value <= 1) return absl::OkStatus();
  return Wrong(field, value, "must be a fraction of the data sheet's bandwidth, above 0 and at most 1");
}

absl::Status ReadLatency(const cluster::NcclLatency& from, int index, NcclCosts& costs) {
  const std::string at = StrCat("latency[", index, "].");
  const auto a = NcclAlgorithmNamed(from.algorithm());
  if (!a) return Wrong(at + "algorithm", StrCat("\"", from.algorithm(), "\""), "use one of ", Names(kNcclAlgorithms));
  const auto p = NcclProtocolNamed(from.protocol());
  if (!p) return Wrong(at + "protocol", StrCat("\"", from.protocol(), "\""), "use one of ", Names(kNcclProtocols));
  NcclHops& hops = costs.latency[static_cast<size_t>(*a)][static_cast<size_t>(*p)];
  const struct {
    std::string_view name;
    bool has;
    double us;
    double& to;
  } fields[] = {
      {"base_us", from.has_base_us(), from.base_us(), hops.base},
      {"node_us", from.has_node_us(), from.node_us(), hops.node},
      {"network_us", from.has_network_us(), from.network_us(), hops.network},
  };
  for (const auto& f : fields) {
    if (!f.has) continue;
    if (!(f.us >= 0 && f.us < 1e6)) return Wrong(StrCat(at, f.name), f.us, "must be at least 0");
    f.to = f.us * 1e-6;
  }
  return absl::OkStatus();
}

template <class Enum>
std::optional<Enum> WithName(std::span<const std::string_view> names, std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<Enum>(at - names.begin()));
}

}  // namespace

std::string Names(std::span<const std::string_view> names) {
  std::string all;
  for (std::string_view n : names) StrAppend(&all, all.empty() ? "" : ", ", n);
  return all;
}

std::optional<NcclAlgorithm> NcclAlgorithmNamed(std::string_view name) {
  return WithName<NcclAlgorithm>(kNcclAlgorithms, name);
}
std::optional<NcclProtocol> NcclProtocolNamed(std::string_view name) {
  return WithName<NcclProtocol>(kNcclProtocols, name);
}

double NcclCosts::Share(NcclAlgorithm a, NcclProtocol p, int nodes, bool between) const {
  double share = !between                      ? nvlink_share
                 : a == NcclAlgorithm::kDirect ? messages_network_share
                 : p == NcclProtocol::kLL      ? ll_network_share
                                               : network_share;
  const bool tree = a == NcclAlgorithm::kTree;
  if (tree) share *= between ? 0.92 / 2 : 0.92;
  if (p == NcclProtocol::kLL) share *= tree ? 1 / 3.8 : 0.5;
  if (p == NcclProtocol::kLL128) share *= !tree ? 0.92 : nodes == 1 ? 7.0 / 9 : 120.0 / 128;
  if (!between && (a == NcclAlgorithm::kNvls || a == NcclAlgorithm::kNvlsTree)) share *= nvls_share;
  return share;
}

double NcclCosts::Most(NcclAlgorithm a, NcclProtocol p, int nodes) const {
  const size_t c = NodeClass(nodes);
  if (p == NcclProtocol::kLL) return ll_bandwidth[c];
  switch (a) {
    case NcclAlgorithm::kRing:
    case NcclAlgorithm::kDirect: return p == NcclProtocol::kLL128 ? ring_ll128_bandwidth[c] : kNone;
    case NcclAlgorithm::kTree: return p == NcclProtocol::kLL128 ? tree_ll128_bandwidth[c] : tree_bandwidth[c];
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree: return kNone;
  }
  return kNone;
}

absl::StatusOr<NcclCosts> ReadNcclCosts(const cluster::Nccl& nccl) {
  const Generation* g = std::find_if(std::begin(kGenerations), std::end(kGenerations),
                                     [&](const Generation& row) { return row.name == nccl.generation(); });
  if (g == std::end(kGenerations)) {
    return Wrong("generation", StrCat("\"", nccl.generation(), "\""), "use one of volta, ampere, hopper, blackwell");
  }
  if (nccl.has_channels() && (nccl.channels() < 1 || nccl.channels() > 64)) {
    return Wrong("channels", nccl.channels(), "must be from 1 to 64");
  }
  for (const auto& [field, us] : {std::pair<std::string_view, double>{"call_us", nccl.call_us()},
                                  {"short_message_us", nccl.short_message_us()}}) {
    if (!(us >= 0 && us < 1e6)) return Wrong(field, us, "must be at least 0");
  }
  if (nccl.short_message_bytes() < 0)
    return Wrong("short_message_bytes", nccl.short_message_bytes(), "must be at least 0");
  NcclCosts c;
  c.channels = nccl.has_channels() ? static_cast<int>(nccl.channels()) : g->channels;
  c.nvlink_share = nccl.has_nvlink_efficiency() ? nccl.nvlink_efficiency() : g->link / g->link_data_sheet;
  c.nvls_share = nccl.has_nvls_efficiency() ? nccl.nvls_efficiency() : g->nvls_efficiency > 0 ? g->nvls_efficiency : 1;
  c.network_share = nccl.network_efficiency();
  c.messages_network_share =
      nccl.has_messages_network_efficiency() ? nccl.messages_network_efficiency() : c.network_share;
  c.ll_network_share = nccl.has_ll_network_efficiency() ? nccl.ll_network_efficiency() : c.network_share;
  c.call = nccl.call_us() * 1e-6;
  c.short_message_bytes = static_cast<double>(nccl.short_message_bytes());
  c.short_message = nccl.short_message_us() * 1e-6;
  for (const auto& [field, value] : {std::pair<std::string_view, double>{"nvlink_efficiency", c.nvlink_share},
                                     {"nvls_efficiency", c.nvls_share},
                                     {"network_efficiency", c.network_share},
                                     {"messages_network_efficiency", c.messages_network_share},
                                     {"ll_network_efficiency", c.ll_network_share}}) {
    if (absl::Status s = CheckShare(field, value); !s.ok()) return s;
  }
  for (size_t k = 0; k < 3; ++k) {
    c.ll_bandwidth[k] = g->ll[k] * 1e9;
    c.ring_ll128_bandwidth[k] = g->ring_ll128[k] * c.channels * 1e9;
    c.tree_bandwidth[k] = g->tree[k] * c.channels * 1e9;
    c.tree_ll128_bandwidth[k] = g->tree_ll128[k] * c.channels * 1e9;
  }
  for (size_t a = 0; a < c.latency.size(); ++a) {
    for (size_t p = 0; p < c.latency[a].size(); ++p) {
      const NcclHops& us = kLatencies[a][p];
      c.latency[a][p] = {us.base * 1e-6, us.node * 1e-6, us.network * 1e-6};
    }
  }
  for (int i = 0; i < nccl.latency_size(); ++i) {
    if (absl::Status s = ReadLatency(nccl.latency(i), i, c); !s.ok()) return s;
  }
  return c;
}

}  // namespace twofold::sim
