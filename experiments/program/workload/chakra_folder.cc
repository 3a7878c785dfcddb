#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/rank_list.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/report/chakra_files.h"
#include "experiments/program/report/files.h"
#include "experiments/program/workload/chakra.h"
#include "nlohmann/json.hpp"

namespace twofold {
namespace {

namespace fs = std::filesystem;

// By pg_name.
using GroupRanks = std::map<std::string, std::vector<int>>;

absl::StatusOr<GroupRanks> ReadGroups(const std::string& file, int ranks) {
  GroupRanks groups;
  if (!fs::exists(file)) return groups;
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return text.status();
  const nlohmann::json all = nlohmann::json::parse(*text, nullptr, false);
  if (!all.is_object())
    return InvalidArgument(file, ": expected an object from names of process groups to lists of ranks");
  for (const auto& [name, list] : all.items()) {
    std::vector<int>& of = groups[name];
    const bool whole = list.is_array() && std::all_of(list.begin(), list.end(), [&](const nlohmann::json& rank) {
                         return rank.is_number_integer() && rank >= 0 && rank < ranks;
                       });
    if (!whole || list.empty())
      return InvalidArgument(file, ": group \"", name, "\": expected a list of ranks, each from 0 to ", ranks - 1);
    for (const nlohmann::json& rank : list) of.push_back(rank.get<int>());
    std::vector<int> sorted = of;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
      return InvalidArgument(file, ": group \"", name, "\": lists a rank twice");
  }
  return groups;
}

// "trace.12.et": 12.
int64_t RankOfName(const fs::path& path) {
  const std::string stem = path.stem().string();
  int64_t rank = -1;
  const bool number = absl::SimpleAtoi(stem.substr(stem.find_last_of("._-") + 1), &rank);
  return number ? rank : -1;
}

// Files by rank.
absl::StatusOr<std::map<int64_t, std::string>> FilesOf(const std::string& folder) {
  std::map<int64_t, std::string> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".et") continue;
    const int64_t rank = RankOfName(entry.path());
    if (rank < 0)
      return InvalidArgument(entry.path().string(), ": its name has no rank; expected one such as \"trace.0.et\"");
    if (!files.emplace(rank, entry.path().string()).second)
      return InvalidArgument(folder, ": has two traces of rank ", rank);
  }
  if (error) return InvalidArgument(folder, ": cannot be read: ", error.message());
  if (files.empty())
    return InvalidArgument(folder,
                           ": has no execution traces in it; expected files that end in .et, as a run with "
                           "trace.execution_graph writes them");
  std::vector<int> missing;
  for (int64_t r = 0; r <= files.rbegin()->first && missing.size() < 1000; ++r)
    if (!files.contains(r)) missing.push_back(static_cast<int>(r));
  if (!missing.empty())
    return InvalidArgument(folder, ": has no trace of ", RankList(missing),
                           "; every rank's is needed (a run with fabric.simulated.folding: OFF writes them)");
  return files;
}

// Puts the ranks' nodes together, and finds the groups that they name.
class Joined {
 public:
  Joined(GroupRanks groups, int ranks) : known_(std::move(groups)), ranks_(ranks) {}

  absl::Status Add(int rank, const std::string& file, ChakraRank read) {
    for (const ChakraRank::Communication& c : read.communications) {
      WorkloadNode& node = read.nodes[c.node];
      const auto where = [&] { return StrCat(file, ": node \"", node.name, "\""); };
      const absl::StatusOr<int> group = GroupOf(c, where);
      if (!group.ok()) return group.status();
      node.group = *group;
      const std::vector<int>& ranks = out_.groups[static_cast<size_t>(*group)].ranks;
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end())
        return InvalidArgument(where(), ": is of group ", c.group, ", of which rank ", rank, " is no member");
      if (absl::Status status = SetPeer(c, ranks, where, node); !status.ok()) return status;
      for (const std::vector<int64_t>* list : {&node.bytes_to, &node.bytes_from}) {
        if (node.operation == Communication::kAllToAllV && list->size() != ranks.size())
          return InvalidArgument(where(), ": has bytes for ", list->size(), " ranks, but its group has ", ranks.size());
      }
    }
    out_.ranks.push_back(std::move(read.nodes));
    return absl::OkStatus();
  }
  Workload Take() { return std::move(out_); }

 private:
  absl::StatusOr<int> GroupOf(const ChakraRank::Communication& c, const auto& where) {
    const auto [it, fresh] = numbers_.try_emplace(c.group, static_cast<int>(out_.groups.size()));
    if (!fresh) return it->second;
    Workload::Group group{
        .name = c.description.empty() ? (c.group.empty() ? "world" : StrCat("pg ", c.group)) : c.description,
        .ranks = {}};
    if (const auto known = known_.find(c.group); known != known_.end()) {
      group.ranks = known->second;
    } else if (!c.group.empty() && !known_.empty()) {
      return InvalidArgument(where(), ": is of group \"", c.group, "\", which ", kChakraGroups, " does not have");
    } else {
      for (int r = 0; r < ranks_; ++r) group.ranks.push_back(r);
    }
    out_.groups.push_back(std::move(group));
    return it->second;
  }

  absl::Status SetPeer(const ChakraRank::Communication& c, const std::vector<int>& ranks, const auto& where,
                       WorkloadNode& node) {
    if (node.kind == WorkloadNode::kCollective) {
      if (c.peer < 0 || c.peer >= std::ssize(ranks))
        return InvalidArgument(where(), ": root is ", c.peer, "; expected 0 to ", ranks.size() - 1);
      node.peer = static_cast<int>(c.peer);
      return absl::OkStatus();
    }
    const auto peer = std::find(ranks.begin(), ranks.end(), static_cast<int>(c.peer));
    if (peer == ranks.end()) return InvalidArgument(where(), ": its peer, rank ", c.peer, ", is not in its group");
    node.peer = static_cast<int>(peer - ranks.begin());
    return absl::OkStatus();
  }

  const GroupRanks known_;
  const int ranks_;
  std::map<std::string, int> numbers_;  // of groups in out_, by pg_name
  Workload out_;
};

}  // namespace

absl::StatusOr<ChakraTraces> ReadChakraFolder(const std::string& given) {
  const std::string inside = StrCat(given, "/", kChakraFolder);
  const std::string folder = fs::is_directory(inside) ? inside : given;
  const absl::StatusOr<std::map<int64_t, std::string>> files = FilesOf(folder);
  if (!files.ok()) return files.status();
  const auto ranks = static_cast<int>(files->size());
  absl::StatusOr<GroupRanks> groups = ReadGroups(StrCat(folder, "/", kChakraGroups), ranks);
  if (!groups.ok()) return groups.status();
  ChakraTraces all;
  int64_t without_type = 0, without_duration = 0, added = 0, dropped = 0;
  Joined joined(*std::move(groups), ranks);
  for (const auto& [rank, file] : *files) {
    const absl::StatusOr<std::string> bytes = ReadFile(file);
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<ChakraRank> read = ReadChakra(*bytes, file);
    if (!read.ok()) return read.status();
    if (read->rank >= 0 && read->rank != rank)
      return InvalidArgument(file, ": says that it is of rank ", read->rank, "; its name says ", rank);
    without_type += read->without_type, without_duration += read->without_duration, added += read->edges_added,
        dropped += read->edges_dropped;
    if (absl::Status status = joined.Add(static_cast<int>(rank), file, *std::move(read)); !status.ok()) return status;
  }
  all.workload = joined.Take();
  if (added > 0)
    all.notes.push_back(StrCat(Counted(added, "edge"),
                               " added: nodes of a device's stream that followed none of it now follow "
                               "the one before them, by their start times"));
  if (dropped > 0)
    all.notes.push_back(StrCat(Counted(dropped, "edge"), " left out: from nodes that are not in the trace"));
  if (without_type > 0)
    all.notes.push_back(
        StrCat(Counted(without_type, "node"), " of collectives without a comm_type: they count as work"));
  if (without_duration > 0)
    all.notes.push_back(StrCat(Counted(without_duration, "node"), " of work without a duration: they take no time"));
  return all;
}

}  // namespace twofold
