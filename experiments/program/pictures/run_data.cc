#include "experiments/program/pictures/run_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/report/link_files.h"
#include "experiments/program/report/memory_blocks_file.h"
#include "experiments/program/report/network_file.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/spec.h"

namespace twofold::pictures {
namespace {

using Json = nlohmann::json;

// More cannot be drawn: nanoseconds and bytes are counted in 64 bits.
constexpr double kMostSeconds = 1e9, kMostNumber = 0x1p60;

absl::Status Bad(const std::string& path, const std::string& what) { return InvalidArgument(path, ": ", what); }

// Thread names are separate events, so they are collected first.
std::map<std::pair<int, int>, std::string> StreamNames(const Json& events) {
  std::map<std::pair<int, int>, std::string> names;
  for (const Json& e : events) {
    if (e.value("ph", "") == "M" && e.value("name", "") == "thread_name") {
      names[{e.value("pid", 0), e.value("tid", 0)}] = e.at("args").value("name", "");
    }
  }
  return names;
}

void AddRankNames(const Json& events, RunData& run) {
  for (const Json& e : events) {
    if (e.value("ph", "") == "M" && e.value("name", "") == "process_name")
      run.rank_names[e.value("pid", 0)] = e.at("args").value("name", "");
  }
}

absl::Status AddSpans(const std::string& path, const Json& events, RunData& run) {
  const auto names = StreamNames(events);
  std::map<std::pair<int, int>, Lane> lanes;
  for (const Json& e : events) {
    if (e.value("ph", "") != "X") continue;
    const std::pair<int, int> id{e.value("pid", 0), e.value("tid", 0)};
    Lane& lane = lanes[id];
    lane.rank = id.first;
    const auto name = names.find(id);
    lane.stream = name == names.end() ? absl::StrCat("stream ", id.second) : name->second;
    const double start = e.value("ts", 0.0) * 1e-6, end = start + e.value("dur", 0.0) * 1e-6;
    const Json args = e.value("args", Json::object());
    lane.spans.push_back({.name = e.value("name", ""),
                          .start = start,
                          .end = end,
                          .bytes = args.value("bytes", int64_t{0}),
                          .waiting = args.value("waiting_us", 0.0) * 1e-6,
                          .exposed = args.value("exposed_us", 0.0) * 1e-6,
                          .label = args.value("label", ""),
                          .shape = args.value("shape", "")});
    const DrawnSpan& s = lane.spans.back();
    for (const double seconds : {s.start, s.end, s.waiting, s.exposed}) {
      if (!(std::abs(seconds) <= kMostSeconds))
        return Bad(path, absl::StrCat("event \"", s.name, "\": a time of ", seconds, " s; expected at most 1e9"));
    }
  }
  for (auto& [id, lane] : lanes) {
    std::stable_sort(lane.spans.begin(), lane.spans.end(),
                     [](const DrawnSpan& a, const DrawnSpan& b) { return a.start < b.start; });
    run.lanes.push_back(std::move(lane));
  }
  return absl::OkStatus();
}

absl::Status ReadTrace(const std::string& path, RunData& run) {
  std::ifstream file(path);
  if (!file) return absl::OkStatus();
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object() || !json.contains("traceEvents") || !json["traceEvents"].is_array()) {
    return Bad(path, "is not a trace; expected JSON with a list of traceEvents");
  }
  try {
    AddRankNames(json["traceEvents"], run);
    return AddSpans(path, json["traceEvents"], run);
  } catch (const Json::exception& e) {
    return Bad(path, absl::StrCat("a field of an event has the wrong type (", e.what(), ")"));
  }
}

absl::Status ReadMemory(const std::string& path, RunData& run) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return absl::OkStatus();
  const std::vector<std::string> header = absl::StrSplit(line, ',');
  if (header.size() < 4 || header[0] != "rank" || header[1] != "time" || header.back() != "reserved") {
    return Bad(path, "line 1: expected rank,time,<categories>,live,reserved");
  }
  run.categories.assign(header.begin() + 2, header.end() - 2);
  for (int number = 2; std::getline(file, line); ++number) {
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    std::vector<double> values(cells.size());
    bool ok = cells.size() == header.size();
    for (size_t i = 0; ok && i < cells.size(); ++i) ok = absl::SimpleAtod(cells[i], &values[i]);
    if (!ok) return Bad(path, absl::StrCat("line ", number, ": expected ", header.size(), " numbers"));
    for (size_t i = 0; i < values.size(); ++i) {
      const double most = i == 0 ? std::numeric_limits<int>::max() : i == 1 ? kMostSeconds : kMostNumber;
      if (!(std::abs(values[i]) <= most))
        return Bad(path, absl::StrCat("line ", number, ": ", header[i], ": ", cells[i], "; expected at most ", most));
    }
    MemoryLine& m = run.memory[static_cast<int>(values[0])];
    m.by_category.resize(run.categories.size());
    m.time.push_back(values[1]);
    for (size_t c = 0; c < run.categories.size(); ++c) m.by_category[c].push_back(values[c + 2]);
    m.reserved.push_back(values.back());
  }
  return absl::OkStatus();
}

absl::Status ReadLayout(const std::string& path, RunData& run) {
  std::ifstream file(path);
  if (!file) return absl::OkStatus();
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  absl::StatusOr<spec::Spec> spec = ParseSpec(text, path);
  if (!spec.ok()) return spec.status();
  if (const std::string& order = spec->parallel().order(); !order.empty()) {
    if (const absl::Status wrong = ParseMeshOrder(order).status(); !wrong.ok())
      return InvalidArgument(path, ": parallel.order: ", std::string(wrong.message()));
  }
  run.parallel = spec->parallel();
  return absl::OkStatus();
}

// Shifts times so that they start at the first event.
void Rebase(RunData& run) {
  double origin = 1e300, end = 0;
  for (const Lane& lane : run.lanes) {
    if (!lane.spans.empty()) origin = std::min(origin, lane.spans.front().start);
  }
  for (const auto& [rank, m] : run.memory) origin = std::min(origin, m.time.front());
  for (Lane& lane : run.lanes) {
    for (DrawnSpan& s : lane.spans) s.start -= origin, s.end -= origin, end = std::max(end, s.end);
  }
  for (auto& [rank, m] : run.memory) {
    for (double& t : m.time) t -= origin;
    end = std::max(end, m.time.back());
  }
  run.links.begin -= origin;
  run.links.pictures.set_begin(run.links.pictures.begin() - origin);
  run.trace_end = end;
}

}  // namespace

std::string RunData::Title() const {
  return absl::StrCat(report.predicted() ? "predicted" : "measured", " (", report.fabric(), ")",
                      apart.empty() ? "" : ", ", apart);
}

void TellApart(std::vector<RunData>& runs) {
  std::map<std::string, std::vector<RunData*>> by_title;
  for (RunData& run : runs) {
    run.apart.clear();
    by_title[run.Title()].push_back(&run);
  }
  for (const auto& [title, alike] : by_title) {
    if (alike.size() < 2) continue;
    std::set<std::string> names;
    for (RunData* run : alike) {
      run->apart = std::filesystem::path(run->folder + "/").lexically_normal().parent_path().filename().string();
      names.insert(run->apart);
    }
    if (names.size() == alike.size()) continue;
    for (RunData* run : alike) run->apart = run->folder;
  }
}

absl::StatusOr<RunData> ReadRun(const std::string& folder) {
  RunData run;
  run.folder = folder;
  auto report = ReadReport(folder);
  if (!report.ok()) return report.status();
  run.report = *std::move(report);
  if (absl::Status s = ReadTrace(folder + "/trace.json", run); !s.ok()) return s;
  if (absl::Status s = ReadMemory(folder + "/memory.csv", run); !s.ok()) return s;
  auto blocks = ReadMemoryBlocks(StrCat(folder, "/", kMemoryBlocks));
  if (!blocks.ok()) return blocks.status();
  run.blocks = *std::move(blocks);
  for (const auto& [rank, own] : run.blocks) {
    const auto line = run.memory.find(rank);
    const size_t samples = line == run.memory.end() ? 0 : line->second.time.size();
    if (absl::Status s = CheckMemoryBlocks(own, static_cast<int64_t>(samples)); !s.ok())
      return Bad(StrCat(folder, "/", kMemoryBlocks), StrCat("rank ", rank, ": ", s.message()));
  }
  auto links = ReadLinkLoads(folder);
  if (!links.ok()) return links.status();
  run.links = *std::move(links);
  auto network = ReadNetworkFile(StrCat(folder, "/", kNetwork));
  if (!network.ok()) return network.status();
  run.links.pictures = *std::move(network);
  if (absl::Status s = ReadLayout(folder + "/spec.textproto", run); !s.ok()) return s;
  Rebase(run);
  return run;
}

}  // namespace twofold::pictures
