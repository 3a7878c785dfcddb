#include "sim/collectives/nccl_costs.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::sim {
namespace {

constexpr NcclGeneration kGenerations[] = {
    {.name = "volta",
     .rccl = false,
     .age = 0,
     .link = 20,
     .link_data_sheet = 25,
     .nvls_channels = 16,
     .nvls_channels_between = 16,
     .nvls_efficiency = 0,
     .ll = {39.0, 39.0, 20.4},
     .ring_ll128 = {20, 20, 20},
     .tree = {26.5, 18.5, 10.0},
     .tree_ll128 = {20, 20, 20},
     .nvls_tree = {0, 0, 0},
     .base = {8.9, 19.6, 23.7},
     .hop = {0.75, 0.75, 6.1},
     .share = {0.3, 0.525, 0.775},
     .channel = {6.7, 20, 20},
     .local = 459,
     .nvls_base = 0,
     .nvls_share = 1,
     .nvls_fills = 0,
     .message_base = {12.4, 14, 14.1},
     .message_channel = {7.2, 7.2, 20},
     .message_share = 0.673,
     .message_local = 898},
    {.name = "ampere",
     .rccl = false,
     .age = 1,
     .link = 20,
     .link_data_sheet = 25,
     .nvls_channels = 16,
     .nvls_channels_between = 16,
     .nvls_efficiency = 0,
     .ll = {87.7, 22.5, 19.0},
     .ring_ll128 = {20, 20, 20},
     .tree = {24.0, 23.6, 17.8},
     .tree_ll128 = {20, 20, 20},
     .nvls_tree = {0, 0, 0},
     .base = {8.9, 19.6, 23.7},
     .hop = {0.75, 0.75, 6.1},
     .share = {0.3, 0.525, 0.775},
     .channel = {6.7, 20, 20},
     .local = 459,
     .nvls_base = 0,
     .nvls_share = 1,
     .nvls_fills = 0,
     .message_base = {12.4, 14, 14.1},
     .message_channel = {7.2, 7.2, 20},
     .message_share = 0.673,
     .message_local = 898},
    {.name = "hopper",
     .rccl = false,
     .age = 2,
     .link = 20.6,
     .link_data_sheet = 25,
     .nvls_channels = 16,
     .nvls_channels_between = 16,
     .nvls_efficiency = 0.85,
     .ll = {141, 45, 35},
     .ring_ll128 = {36.7, 36.7, 36.7},
     .tree = {38.7, 41.4, 36.0},
     .tree_ll128 = {36.7, 36.7, 29.0},
     .nvls_tree = {0, 57.7, 45.5},
     .base = {5.0, 16.5, 14.6},
     .hop = {0.73, 0.55, 3.2},
     .share = {0.361, 0.771, 0.836},
     .channel = {12.3, 14.1, 20.4},
     .local = 631,
     .nvls_base = 14.7,
     .nvls_share = 0.673,
     .nvls_fills = 2.3,
     .message_base = {7.05, 9, 8.9},
     .message_channel = {6.5, 6.5, 22},
     .message_share = 0.761,
     .message_local = 2415},
    {.name = "blackwell",
     .rccl = false,
     .age = 3,
     .link = 40.1,
     .link_data_sheet = 50,
     .nvls_channels = 24,
     .nvls_channels_between = 32,
     .nvls_efficiency = 0.74,
     .ll = {282, 90, 70},
     .ring_ll128 = {40, 40, 40},
     .tree = {70, 42.8, 24},
     .tree_ll128 = {55.6, 31.67, 20},
     .nvls_tree = {0, 96, 80},
     .base = {7.5, 8.5, 12.7},
     .hop = {1.2, 4.0, 6.65},
     .share = {0.333, 0.7, 0.849},
     .channel = {11.7, 9.0, 24},
     .local = 983,
     .nvls_base = 34.4,
     .nvls_share = 0.52,
     .nvls_fills = 1.9,
     .message_base = {10.2, 12, 12.2},
     .message_channel = {8.4, 8.4, 30},
     .message_share = 0.661,
     .message_local = 1234},
    {.name = "cdna2",
     .rccl = true,
     .age = 1,
     .link = 36,
     .link_data_sheet = 50,
     .nvls_channels = 0,
     .nvls_channels_between = 0,
     .nvls_efficiency = 0,
     .ll = {},
     .ring_ll128 = {},
     .tree = {},
     .tree_ll128 = {},
     .nvls_tree = {},
     .base = {12, 12, 17},
     .hop = {0.8, 0.8, 2.1},
     .share = {0.36, 0.66, 0.72},
     .channel = {1000, 1000, 1000},
     .local = 1000,
     .nvls_base = 0,
     .nvls_share = 1,
     .nvls_fills = 0,
     .message_base = {12, 17, 17},
     .message_channel = {1000, 1000, 1000},
     .message_share = 0.7,
     .message_local = 2000},
    {.name = "cdna3",
     .rccl = true,
     .age = 2,
     .link = 48,
     .link_data_sheet = 64,
     .nvls_channels = 0,
     .nvls_channels_between = 0,
     .nvls_efficiency = 0,
     .ll = {},
     .ring_ll128 = {},
     .tree = {},
     .tree_ll128 = {},
     .nvls_tree = {},
     .base = {12, 12, 17},
     .hop = {0.8, 0.8, 2.1},
     .share = {0.375, 0.69, 0.75},
     .channel = {1000, 1000, 1000},
     .local = 2000,
     .nvls_base = 0,
     .nvls_share = 1,
     .nvls_fills = 0,
     .message_base = {12, 17, 17},
     .message_channel = {1000, 1000, 1000},
     .message_share = 0.7,
     .message_local = 2000},
};

// Hops between nodes in microseconds, by protocol; shares of a NIC's rate.
struct Transport {
  std::string_view name;
  std::array<double, 3> ring, tree;
  double nvls_tree, message;  // direct: of each peer
  double share, messages_share, ll_share;
  double short_bytes, short_more;  // direct: messages of fewer bytes cost so much more
  bool serial_posts;
};
constexpr Transport kTransports[] = {
    {"infiniband", {2.7, 21, 72}, {5.0, 8.5, 40}, 73, 2.7, 0.96, 0.96, 0.96, 0, 0, false},
    {"roce", {2.7, 21, 72}, {5.0, 8.5, 40}, 73, 2.7, 0.96, 0.96, 0.96, 0, 0, false},
    {"efa", {40, 21, 72}, {112, 8.5, 40}, 73, 40, 0.95, 0.95, 0.95, 0, 0, false},
    {"slingshot", {2.7, 21, 75}, {5.0, 8.5, 40}, 73, 10.9, 0.72, 0.39, 0.3, 256, 9.5, true},
    {"tcp", {38, 200, 200}, {18, 200, 200}, 200, 14, 0.18, 0.118, 0.18, 0, 0, false},
};

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
  if (from.has_channel_gbytes_per_second()) {
    const double rate = from.channel_gbytes_per_second();
    if (!(rate > 0 && rate <= 1e6)) return Wrong(at + "channel_gbytes_per_second", rate, "must be above 0");
    costs.channel[static_cast<size_t>(*a)][static_cast<size_t>(*p)] = rate * 1e9;
  }
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

double NcclCosts::Share(NcclAlgorithm a, NcclProtocol p, bool between) const {
  const bool tree = a == NcclAlgorithm::kTree, nvls = a == NcclAlgorithm::kNvls || a == NcclAlgorithm::kNvlsTree;
  if (!between) {
    if (nvls) return nvls_share;
    if (a == NcclAlgorithm::kDirect)
      return nvlink_share * row->message_share / row->share[2] * (p == NcclProtocol::kLL ? 0.5 : 1);
    return nvlink_share * row->share[static_cast<size_t>(p)] / row->share[2] * (tree ? 0.92 : 1);
  }
  double share = a == NcclAlgorithm::kDirect ? messages_network_share
                 : p == NcclProtocol::kLL    ? ll_network_share
                                             : network_share;
  if (tree) share *= 0.92;
  if (a == NcclAlgorithm::kPat) share *= 0.75;
  if (p == NcclProtocol::kLL) share *= 0.5;
  if (p == NcclProtocol::kLL128) share *= 120.0 / 128;
  return share;
}

namespace {

// Latencies and rates by generation and network, before a file's own.
void SetDefaults(const NcclGeneration& g, const Transport& t, NcclCosts& c) {
  for (size_t p = 0; p < 3; ++p) {
    const auto row = [&](NcclAlgorithm a, double base, double node, double network, double channel) {
      c.latency[static_cast<size_t>(a)][p] = {base * 1e-6, node * 1e-6, network * 1e-6};
      c.channel[static_cast<size_t>(a)][p] = channel * 1e9;
    };
    row(NcclAlgorithm::kRing, g.base[p], g.hop[p], t.ring[p], g.channel[p]);
    // NCCL expects more of a tree's channel than of a ring's: it copies within a node and reduces at once.
    row(NcclAlgorithm::kTree, g.base[p], g.hop[p], t.tree[p],
        p == 2 ? std::max(g.tree[0], g.channel[p]) : g.channel[p]);
    row(NcclAlgorithm::kNvls, g.nvls_base, 0, 0, 1e6);
    row(NcclAlgorithm::kNvlsTree, g.nvls_base, 0, t.nvls_tree, 1e6);
    row(NcclAlgorithm::kPat, g.base[p], g.hop[p], t.ring[p] / 3.5, g.channel[p]);
    row(NcclAlgorithm::kDirect, g.message_base[p], g.rccl ? g.hop[p] : 0, t.message, g.message_channel[p]);
  }
}

absl::Status CheckNumbers(const cluster::Nccl& nccl) {
  if (nccl.has_channels() && (nccl.channels() < 1 || nccl.channels() > 64)) {
    return Wrong("channels", nccl.channels(), "must be from 1 to 64");
  }
  for (const auto& [field, us] : {std::pair<std::string_view, double>{"call_us", nccl.call_us()},
                                  {"short_message_us", nccl.short_message_us()},
                                  {"post_us", nccl.post_us()}}) {
    if (!(us >= 0 && us < 1e6)) return Wrong(field, us, "must be at least 0");
  }
  if (nccl.short_message_bytes() < 0)
    return Wrong("short_message_bytes", nccl.short_message_bytes(), "must be at least 0");
  if (nccl.has_local_gbytes_per_second() && !(nccl.local_gbytes_per_second() > 0))
    return Wrong("local_gbytes_per_second", nccl.local_gbytes_per_second(), "must be above 0");
  return absl::OkStatus();
}

template <class Row>
const Row* RowNamed(std::span<const Row> rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

}  // namespace

absl::StatusOr<NcclCosts> ReadNcclCosts(const cluster::Nccl& nccl, bool rccl) {
  const std::string_view name = rccl && !nccl.has_generation() ? "cdna3" : std::string_view(nccl.generation());
  const auto* g = RowNamed(std::span<const NcclGeneration>(kGenerations), name);
  if (g == nullptr || g->rccl != rccl) {
    return Wrong("generation", StrCat("\"", name, "\""), "use one of ",
                 rccl ? "cdna2, cdna3" : "volta, ampere, hopper, blackwell");
  }
  const auto* t = RowNamed(std::span<const Transport>(kTransports), nccl.network());
  if (t == nullptr)
    return Wrong("network", StrCat("\"", nccl.network(), "\""), "use one of infiniband, roce, slingshot, efa, tcp");
  const NcclVersion* const version = NcclVersionNamed(nccl.version());
  if (version == nullptr || (rccl && nccl.has_version())) {
    return Wrong("version", StrCat("\"", nccl.version(), "\""),
                 rccl ? "library rccl has no other versions; leave it out" : "use 2.8 or a later one, such as 2.8.4");
  }
  if (absl::Status s = CheckNumbers(nccl); !s.ok()) return s;
  NcclCosts c;
  c.row = g, c.version = version;
  c.channels = static_cast<int>(nccl.channels());
  c.nvlink_share = nccl.has_nvlink_efficiency() ? nccl.nvlink_efficiency() : g->share[2];
  c.nvls_share = nccl.has_nvls_efficiency() ? c.nvlink_share * nccl.nvls_efficiency() : g->nvls_share;
  c.network_share = nccl.has_network_efficiency() ? nccl.network_efficiency() : t->share;
  c.messages_network_share = nccl.has_messages_network_efficiency() ? nccl.messages_network_efficiency()
                             : nccl.has_network_efficiency()        ? c.network_share
                                                                    : t->messages_share;
  c.ll_network_share = nccl.has_ll_network_efficiency() ? nccl.ll_network_efficiency()
                       : nccl.has_network_efficiency()  ? c.network_share
                                                        : t->ll_share;
  c.local = (nccl.has_local_gbytes_per_second() ? nccl.local_gbytes_per_second() : g->local) * 1e9;
  c.call = nccl.call_us() * 1e-6, c.post = nccl.post_us() * 1e-6;
  c.serial_posts = t->serial_posts;
  c.ll128_between_nodes = nccl.ll128_between_nodes(), c.pat = nccl.pat();
  c.short_message_bytes =
      nccl.has_short_message_bytes() ? static_cast<double>(nccl.short_message_bytes()) : t->short_bytes;
  c.short_message = (nccl.has_short_message_us() ? nccl.short_message_us() : t->short_more) * 1e-6;
  for (const auto& [field, value] : {std::pair<std::string_view, double>{"nvlink_efficiency", c.nvlink_share},
                                     {"nvls_efficiency", c.nvls_share},
                                     {"network_efficiency", c.network_share},
                                     {"messages_network_efficiency", c.messages_network_share},
                                     {"ll_network_efficiency", c.ll_network_share}}) {
    if (absl::Status s = CheckShare(field, value); !s.ok()) return s;
  }
  SetDefaults(*g, *t, c);
  for (int i = 0; i < nccl.latency_size(); ++i) {
    if (absl::Status s = ReadLatency(nccl.latency(i), i, c); !s.ok()) return s;
  }
  return c;
}

}  // namespace twofold::sim
