#include "sim/collectives/nccl_versions.h"

#include <charconv>
#include <iterator>
#include <limits>

namespace twofold::sim {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

constexpr NcclVersion Old(int minor) {
  return {.minor = minor,
          .base = {{3.6, 10.0, 8.4}, {4.4, 4.4, 0}},
          .nvlink = {{.47, 1.9, 3.4}, {.52, 1.25, 28}},
          .pcie = {{1.0, 2.5, 5.7}, {1.0, 1.9, 28}},
          .network = {{2.7, 4.0, minor == 12 ? 28 : 9.6}, {5.0, 8.5, 28}},
          .ring_ll_copies = 1.0 / 3,
          .ring_ll = 1.0 / 4,
          .ring_ll128_alone = 0.7,
          .ring_counts_nodes = minor >= 12,
          .node_ll_times = 1.8,
          .ampere_most = 235,
          .tree_between = minor < 10 ? 0.915 : 120.0 / 128,
          .plateau = 1.9,
          .plateau_by_ranks = true,
          .posts = false,
          .nvls = false,
          .ll128 = minor < 10 ? std::array{18.8, 12.0, 18.3, 15.2, 16.9} : std::array<double, 5>{},
          .ampere_tree = minor < 10 ? std::array{24.0, 22.5, 16.0} : std::array<double, 3>{},
          .several_channels = minor < 10 ? 2.1e-6 : 0,
          .each_channel = minor < 10 ? 1.0e-6 : 0};
}

constexpr NcclVersion kVersions[] = {Old(8),
                                     Old(10),
                                     Old(12),
                                     Old(14),
                                     {.minor = 18,
                                      .base = {{6.6, 14.0, 8.4}, {6.8, 14.0, 8.4}},
                                      .nvlink = {{0.6, 1.9, 3.4}, {0.6, 1.25, 4.0}},
                                      .pcie = {{1.0, 2.5, 5.7}, {1.0, 1.9, 4.0}},
                                      .network = {{2.7, 4.0, 14.0}, {5.0, 8.5, 14.0}},
                                      .ring_ll_copies = 0.5,
                                      .ring_ll = 0.5,
                                      .ring_ll128_alone = 0.92,
                                      .ring_counts_nodes = false,
                                      .node_ll_times = 1,
                                      .ampere_most = kNoLimit,
                                      .tree_between = 120.0 / 128,
                                      .plateau = 1.4,
                                      .plateau_by_ranks = false,
                                      .posts = true,
                                      .nvls = true,
                                      .ll128 = {},
                                      .ampere_tree = {},
                                      .several_channels = 0,
                                      .each_channel = 0}};

}  // namespace

const NcclVersion* NcclVersionNamed(std::string_view name) {
  const NcclVersion* found = nullptr;
  if (name.empty()) return &kVersions[std::size(kVersions) - 1];
  if (!name.starts_with("2.")) return nullptr;
  int minor = 0;
  const char* const end = name.data() + name.size();
  auto [at, error] = std::from_chars(name.data() + 2, end, minor);
  if (error != std::errc() || minor < 0) return nullptr;
  int patch = 0;
  if (at != end) {
    if (*at != '.' || at + 1 == end || at[1] == '-') return nullptr;
    const auto rest = std::from_chars(at + 1, end, patch);
    if (rest.ec != std::errc() || rest.ptr != end) return nullptr;
  }
  for (const NcclVersion& version : kVersions) {
    if (version.minor <= minor) found = &version;
  }
  return found;
}

}  // namespace twofold::sim
