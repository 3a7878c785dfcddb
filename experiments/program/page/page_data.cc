#include "experiments/program/page/page_data.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/escaping.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/pictures/schedule_story.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/report/gzip.h"
#include "experiments/program/report/json.h"
#include "strategies/from_spec.h"

namespace twofold::page {
namespace {

using Json = nlohmann::ordered_json;
using pictures::DrawnSpan;
using pictures::Lane;
using pictures::MemoryLine;
using pictures::RunData;

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

class Columns {
 public:
  void Add(uint64_t value) {
    for (; value > 127; value >>= 7) bytes_.push_back(static_cast<char>((value & 127) | 128));
    bytes_.push_back(static_cast<char>(value));
  }
  void AddSigned(int64_t value) {
    Add(value < 0 ? 2 * static_cast<uint64_t>(-(value + 1)) + 1 : 2 * static_cast<uint64_t>(value));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Texts that occur often, by number. The first is "".
class Names {
 public:
  Names() { Of(""); }
  uint64_t Of(const std::string& name) {
    const auto [at, fresh] = numbers_.try_emplace(name, numbers_.size());
    if (fresh) names_.push_back(name);
    return at->second;
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::map<std::string, uint64_t> numbers_;
  std::vector<std::string> names_;
};

void AddLane(const Lane& lane, Names& names, Names& labels, Names& shapes, Columns& columns) {
  int64_t ended = 0;
  for (const DrawnSpan& s : lane.spans) {
    const int64_t start = Nanoseconds(s.start);
    columns.AddSigned(start - ended);
    ended = std::max(start, Nanoseconds(s.end));
  }
  const auto of_each = [&](auto value) {
    for (const DrawnSpan& s : lane.spans) columns.Add(static_cast<uint64_t>(value(s)));
  };
  of_each([](const DrawnSpan& s) { return std::max<int64_t>(0, Nanoseconds(s.end) - Nanoseconds(s.start)); });
  // A name's class depends on its stream: what NCCL calls a send is no kernel of ours.
  of_each([&](const DrawnSpan& s) {
    return names.Of(std::string(pictures::ShortName(pictures::ClassOf(lane.stream, s.name))) + "|" + s.name);
  });
  of_each([&](const DrawnSpan& s) { return labels.Of(s.label); });
  of_each([&](const DrawnSpan& s) { return shapes.Of(s.shape); });
  of_each([](const DrawnSpan& s) { return std::max<int64_t>(0, s.bytes); });
  of_each([](const DrawnSpan& s) { return std::max<int64_t>(0, Nanoseconds(s.waiting)); });
  of_each([](const DrawnSpan& s) { return std::max<int64_t>(0, Nanoseconds(s.exposed)); });
}

void AddMemory(const MemoryLine& memory, Columns& columns) {
  const auto differences = [&](const std::vector<double>& values, double unit) {
    int64_t before = 0;
    for (const double v : values) {
      const int64_t value = std::llround(v * unit);
      columns.AddSigned(value - before);
      before = value;
    }
  };
  differences(memory.time, 1e9);
  for (const std::vector<double>& live : memory.by_category) differences(live, 1);
  differences(memory.reserved, 1);
}

// Blocks that are there for some of the samples.
void AddLives(const google::protobuf::RepeatedField<int64_t>& first,
              const google::protobuf::RepeatedField<int64_t>& end, Columns& columns) {
  for (int i = 0; i < first.size(); ++i) columns.AddSigned(first[i] - (i > 0 ? first[i - 1] : 0));
  for (int i = 0; i < first.size(); ++i) columns.Add(static_cast<uint64_t>(end[i] - first[i]));
}

void AddBlocks(const report::MemoryBlocks& blocks, Json& json, Columns& columns) {
  json["owners"] = Json::array();
  for (const report::MemoryOwner& owner : blocks.owners()) json["owners"].push_back(ToJson(owner));
  json["blocks"] = blocks.owner_size(), json["segments"] = blocks.segment_number_size();
  for (const auto* column : {&blocks.owner(), &blocks.bytes(), &blocks.segment(), &blocks.offset()})
    for (const int64_t value : *column) columns.Add(static_cast<uint64_t>(value));
  AddLives(blocks.first(), blocks.end(), columns);
  for (const auto* column : {&blocks.segment_number(), &blocks.segment_bytes()})
    for (const int64_t value : *column) columns.Add(static_cast<uint64_t>(value));
  AddLives(blocks.segment_first(), blocks.segment_end(), columns);
}

Json RanksOf(const RunData& run) {
  const MeshShape mesh = MeshOf(run.parallel);
  Json ranks = Json::array();
  for (const auto& [rank, name] : run.rank_names) {
    Json of = {{"rank", rank}, {"name", name}};
    if (rank < mesh.size()) {
      const MeshPlace place = PlaceOf(mesh, rank);
      of["place"] = {{"pp", place.pp}, {"dp", place.dp}, {"cp", place.cp}, {"tp", place.tp}};
    }
    ranks.push_back(std::move(of));
  }
  return ranks;
}

Json ScheduleOf(const RunData& run) {
  constexpr std::string_view kNames[] = {"forward", "backward", "input", "weights", "recompute", "other"};
  static_assert(std::size(kNames) == pictures::kPasses);
  Json rows = Json::array();
  for (const pictures::ScheduleRow& row : pictures::StoryOf(run).rows) {
    Json phases = Json::array(), communication = Json::array();
    for (const pictures::Phase& p : row.phases)
      phases.push_back(Json::array({kNames[static_cast<int>(p.pass)], p.micro_batch, p.chunk, p.start, p.end}));
    for (const pictures::Stretch& s : row.communication) communication.push_back(Json::array({s.start, s.end}));
    rows.push_back({{"name", row.name}, {"phases", std::move(phases)}, {"communication", std::move(communication)}});
  }
  return rows;
}

Json LinksOf(const LinkLoads& loads) {
  Json rows = Json::array();
  for (const LinkLoads::Row& row : loads.rows) {
    Json flows = Json::array();
    for (const LinkLoads::Flow& f : row.flows) flows.push_back(Json::array({f.operation, f.group, f.phases, f.bytes}));
    rows.push_back({{"link", row.link},
                    {"kind", row.kind},
                    {"links", row.links},
                    {"bandwidth", row.bandwidth},
                    {"bytes", row.bytes},
                    {"flows", std::move(flows)}});
  }
  return {
      {"begin", loads.begin}, {"width", loads.width}, {"rows", std::move(rows)}, {"pictures", ToJson(loads.pictures)}};
}

Json KernelClasses(const RunData& run) {
  Json classes = Json::object();
  for (const report::KernelTotal& k : run.report.kernels())
    classes[k.kernel()] = pictures::ShortName(pictures::ClassOf("compute", k.kernel()));
  return classes;
}

Json RunJson(const RunData& run, Columns& columns) {
  Json json = {{"title", run.Title()}, {"folder", run.folder}, {"report", ToJson(run.report)}};
  Names names, labels, shapes;
  Json lanes = Json::array(), memory = Json::array();
  for (const Lane& lane : run.lanes) {
    lanes.push_back({{"rank", lane.rank}, {"stream", lane.stream}, {"count", lane.spans.size()}});
    AddLane(lane, names, labels, shapes, columns);
  }
  for (const auto& [rank, line] : run.memory) {
    Json of = {{"rank", rank}, {"count", line.time.size()}};
    AddMemory(line, columns);
    if (const auto blocks = run.blocks.find(rank); blocks != run.blocks.end()) AddBlocks(blocks->second, of, columns);
    memory.push_back(std::move(of));
  }
  Json class_names = Json::array(), name_texts = Json::array(), class_of = Json::array();
  std::map<std::string, size_t> class_numbers;
  for (int c = 0; c < pictures::kSpanClasses; ++c) {
    const std::string name(pictures::ShortName(static_cast<pictures::SpanClass>(c)));
    class_numbers[name] = class_names.size(), class_names.push_back(name);
  }
  for (const std::string& name : names.all()) {
    const size_t bar = name.find('|');
    class_of.push_back(bar == name.npos ? class_numbers.at("other") : class_numbers.at(name.substr(0, bar)));
    name_texts.push_back(bar == name.npos ? name : name.substr(bar + 1));
  }
  json.update({{"ranks", RanksOf(run)},
               {"lanes", std::move(lanes)},
               {"names", std::move(name_texts)},
               {"class_of", std::move(class_of)},
               {"class_names", std::move(class_names)},
               {"labels", labels.all()},
               {"shapes", shapes.all()},
               {"links", LinksOf(run.links)},
               {"kernel_classes", KernelClasses(run)},
               {"categories", run.categories},
               {"memory", std::move(memory)},
               {"stages", run.parallel.pp()},
               {"schedule", ScheduleOf(run)},
               {"trace_end", run.trace_end}});
  return json;
}

}  // namespace

std::string PageData(const std::vector<const RunData*>& runs) {
  Columns columns;
  Json json = {{"kind", "runs"}, {"runs", Json::array()}};
  for (const RunData* run : runs) json["runs"].push_back(RunJson(*run, columns));
  return Packed(json.dump(-1, ' ', false, Json::error_handler_t::replace), columns.bytes());
}

std::string Packed(const std::string& json, const std::string& columns) {
  std::string all;
  for (int i = 0; i < 4; ++i) all.push_back(static_cast<char>(json.size() >> (8 * i) & 255));
  return absl::Base64Escape(Gzip(all + json + columns));
}

}  // namespace twofold::page
