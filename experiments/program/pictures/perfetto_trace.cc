#include "experiments/program/pictures/perfetto_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <tuple>
#include <utility>

#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/pictures/perfetto.pb.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/report/gzip.h"
#include "strategies/from_spec.h"

namespace twofold::pictures {
namespace {

namespace proto = ::perfetto::protos;

uint64_t Nanoseconds(double seconds) { return static_cast<uint64_t>(std::llround(std::max(0.0, seconds) * 1e9)); }

// What a label says: "F3" is a pass of micro-batch 3, "B0.2" one of micro-batch 0 of chunk 2.
struct LabelParts {
  char kind;
  int micro_batch;
  std::optional<int> chunk;
};

std::optional<LabelParts> PartsOfLabel(const std::string& label) {
  static const std::regex kLabel("([A-Z])(\\d{1,8})(?:\\.(\\d{1,8}))?");
  std::smatch parts;
  if (!std::regex_match(label, parts, kLabel)) return std::nullopt;
  LabelParts pass{.kind = parts[1].str()[0], .micro_batch = std::stoi(parts[2]), .chunk = std::nullopt};
  if (parts[3].matched) pass.chunk = std::stoi(parts[3]);
  return pass;
}

// The pass that receives what `label` of `stage` sends, and its stage; nullopt: nobody does.
std::optional<std::pair<int, std::string>> ReceiverOf(const std::string& label, int stage, int stages) {
  const std::optional<LabelParts> pass = PartsOfLabel(label);
  if (!pass || (pass->kind != 'F' && pass->kind != 'B' && pass->kind != 'I')) return std::nullopt;
  const int step = pass->kind == 'F' ? 1 : -1, to = stage + step;
  if (to >= 0 && to < stages) return std::pair(to, label);
  if (!pass->chunk || *pass->chunk + step < 0) return std::nullopt;
  return std::pair((to + stages) % stages,
                   StrCat(std::string(1, pass->kind), pass->micro_batch, ".", *pass->chunk + step));
}

// Writes packets of one sequence, with each name once.
class Writer {
 public:
  enum class Kind { kSlices, kBytes, kBytesPerSecond };
  void Track(uint64_t id, uint64_t parent, const std::string& name, Kind kind) {
    proto::TrackDescriptor& track = *Next().mutable_track_descriptor();
    track.set_uuid(id), track.set_parent_uuid(parent), track.set_name(name);
    if (kind == Kind::kBytes) track.mutable_counter()->set_unit(proto::CounterDescriptor::UNIT_SIZE_BYTES);
    if (kind == Kind::kBytesPerSecond) track.mutable_counter()->set_unit(proto::CounterDescriptor::UNIT_UNSPECIFIED);
  }
  void Process(uint64_t id, int pid, const std::string& name) {
    proto::TrackDescriptor& track = *Next().mutable_track_descriptor();
    track.set_uuid(id), track.mutable_process()->set_pid(pid), track.mutable_process()->set_process_name(name);
  }
  void Counter(uint64_t track, double time, int64_t value) {
    proto::TrackEvent& event = Event(track, time, proto::TrackEvent::TYPE_COUNTER);
    event.set_counter_value(value);
  }
  // Times of a track must not go back.
  void Slice(uint64_t track, const std::string& category, const DrawnSpan& span, int stage,
             const std::vector<uint64_t>& flows) {
    proto::TracePacket& packet = Next();
    packet.set_timestamp(Nanoseconds(span.start));
    proto::TrackEvent& event = *packet.mutable_track_event();
    event.set_type(proto::TrackEvent::TYPE_SLICE_BEGIN), event.set_track_uuid(track);
    event.add_category_iids(
        Named(category, categories_, [&] { return packet.mutable_interned_data()->add_event_categories(); }));
    event.set_name_iid(Named(span.name, names_, [&] { return packet.mutable_interned_data()->add_event_names(); }));
    const auto argument = [&](const std::string& name) -> proto::DebugAnnotation& {
      proto::DebugAnnotation& a = *event.add_debug_annotations();
      a.set_name_iid(
          Named(name, arguments_, [&] { return packet.mutable_interned_data()->add_debug_annotation_names(); }));
      return a;
    };
    if (!span.shape.empty()) argument("shape").set_string_value(span.shape);
    if (span.bytes > 0) argument("bytes").set_int_value(span.bytes);
    if (span.waiting > 0) argument("waiting_us").set_double_value(span.waiting * 1e6);
    if (span.exposed > 0) argument("exposed_us").set_double_value(span.exposed * 1e6);
    if (!span.label.empty()) argument("label").set_string_value(span.label);
    if (const std::optional<LabelParts> pass = PartsOfLabel(span.label))
      argument("micro_batch").set_int_value(pass->micro_batch);
    if (stage >= 0) argument("stage").set_int_value(stage);
    for (const uint64_t flow : flows) event.add_flow_ids(flow);
    Event(track, span.end, proto::TrackEvent::TYPE_SLICE_END);
  }
  std::string Bytes() const { return trace_.SerializeAsString(); }

 private:
  proto::TracePacket& Next() {
    proto::TracePacket& packet = *trace_.add_packet();
    packet.set_trusted_packet_sequence_id(1);
    packet.set_sequence_flags(trace_.packet_size() == 1 ? proto::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED
                                                        : proto::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    return packet;
  }
  proto::TrackEvent& Event(uint64_t track, double time, proto::TrackEvent::Type type) {
    proto::TracePacket& packet = Next();
    packet.set_timestamp(Nanoseconds(time));
    proto::TrackEvent& event = *packet.mutable_track_event();
    event.set_type(type), event.set_track_uuid(track);
    return event;
  }
  template <class Add>
  uint64_t Named(const std::string& name, std::map<std::string, uint64_t>& known, Add add) {
    const auto [at, fresh] = known.try_emplace(name, known.size() + 1);  // 0 is no id
    if (fresh) {
      auto* entry = add();
      entry->set_iid(at->second), entry->set_name(name);
    }
    return at->second;
  }

  proto::Trace trace_;
  std::map<std::string, uint64_t> categories_, names_, arguments_;
};

std::optional<MeshPlace> PlaceIn(const RunData& run, int rank) {
  const MeshShape mesh = MeshOf(run.parallel);
  if (rank < 0 || rank >= mesh.size()) return std::nullopt;
  return PlaceOf(mesh, rank);
}

void WriteMemory(const RunData& run, int rank, uint64_t process, uint64_t& next, Writer& writer) {
  const auto found = run.memory.find(rank);
  if (found == run.memory.end()) return;
  const MemoryLine& memory = found->second;
  const auto counter = [&](const std::string& name, const std::vector<double>& values) {
    const uint64_t track = next++;
    writer.Track(track, process, name, Writer::Kind::kBytes);
    for (size_t i = 0; i < values.size(); ++i) writer.Counter(track, memory.time[i], std::llround(values[i]));
  };
  for (size_t c = 0; c < run.categories.size(); ++c) {
    const std::vector<double>& values = memory.by_category[c];
    if (std::any_of(values.begin(), values.end(), [](double v) { return v > 0; }))
      counter(StrCat("memory: ", run.categories[c]), values);
  }
  counter("memory: reserved", memory.reserved);
}

// A process of its own: links are no rank's.
void WriteLinks(const RunData& run, uint64_t& next, Writer& writer) {
  if (run.links.rows.empty()) return;
  const uint64_t process = next++;
  writer.Process(process, 1 << 22, "links");  // Linux has no larger number of a process
  for (const LinkLoads::Row& row : run.links.rows) {
    const uint64_t track = next++;
    const std::string like = row.links > 1 ? StrCat(" and ", row.links - 1, " like it") : std::string();
    writer.Track(track, process, StrCat("bytes per second on ", row.link, like), Writer::Kind::kBytesPerSecond);
    std::optional<int64_t> before;
    for (size_t b = 0; b <= row.bytes.size(); ++b) {
      const int64_t rate = b < row.bytes.size() ? std::llround(row.bytes[b] / run.links.width) : 0;
      if (rate != before) writer.Counter(track, run.links.begin + static_cast<double>(b) * run.links.width, rate);
      before = rate;
    }
  }
}

}  // namespace

std::vector<Message> MessagesOf(const RunData& run) {
  using Key = std::tuple<int, int, int, int, std::string, int64_t>;  // stage, dp, cp, tp, label, bytes
  std::map<Key, std::vector<SpanPlace>> receives;
  const auto each = [&](std::string_view name, auto use) {
    for (size_t l = 0; l < run.lanes.size(); ++l) {
      const std::optional<MeshPlace> place = PlaceIn(run, run.lanes[l].rank);
      for (size_t s = 0; place && s < run.lanes[l].spans.size(); ++s) {
        if (run.lanes[l].spans[s].name == name) use(run.lanes[l].spans[s], *place, SpanPlace{l, s});
      }
    }
  };
  each("recv", [&](const DrawnSpan& span, const MeshPlace& at, SpanPlace place) {
    receives[{at.pp, at.dp, at.cp, at.tp, span.label, span.bytes}].push_back(place);
  });
  std::vector<Message> messages;
  std::map<Key, size_t> used;
  each("send", [&](const DrawnSpan& span, const MeshPlace& at, SpanPlace place) {
    const auto there = ReceiverOf(span.label, at.pp, static_cast<int>(run.parallel.pp()));
    if (!there) return;
    const Key key{there->first, at.dp, at.cp, at.tp, there->second, span.bytes};
    const auto found = receives.find(key);
    if (found == receives.end()) return;
    size_t& next = used[key];
    if (next < found->second.size()) messages.push_back({place, found->second[next++]});
  });
  return messages;
}

std::string PerfettoTrace(const RunData& run) {
  std::map<std::pair<size_t, size_t>, std::vector<uint64_t>> flows;
  uint64_t flow = 0;
  for (const Message& m : MessagesOf(run)) {
    ++flow;
    flows[{m.send.lane, m.send.span}].push_back(flow), flows[{m.receive.lane, m.receive.span}].push_back(flow);
  }
  Writer writer;
  std::map<int, uint64_t> processes;
  uint64_t next = 1;
  for (size_t l = 0; l < run.lanes.size(); ++l) {
    const Lane& lane = run.lanes[l];
    const auto [process, fresh] = processes.try_emplace(lane.rank, next);
    if (fresh) {
      ++next;
      const auto name = run.rank_names.find(lane.rank);
      writer.Process(process->second, lane.rank + 1,  // 0 is the idle process of an operating system
                     name == run.rank_names.end() ? StrCat("rank ", lane.rank) : name->second);
      WriteMemory(run, lane.rank, process->second, next, writer);
    }
    const std::optional<MeshPlace> place = PlaceIn(run, lane.rank);
    const int stage = place && run.parallel.pp() > 1 ? place->pp : -1;
    struct Row {
      uint64_t track, ended;
    };
    std::vector<Row> rows;
    for (size_t s = 0; s < lane.spans.size(); ++s) {
      const DrawnSpan& span = lane.spans[s];
      const uint64_t start = Nanoseconds(span.start), end = Nanoseconds(span.end);
      auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) { return r.ended <= start; });
      if (row == rows.end()) {
        writer.Track(next, process->second, lane.stream, Writer::Kind::kSlices);
        row = rows.insert(rows.end(), {next++, 0});
      }
      row->ended = end;
      const auto of_span = flows.find({l, s});
      writer.Slice(row->track, std::string(ShortName(ClassOf(lane.stream, span.name))), span, stage,
                   of_span == flows.end() ? std::vector<uint64_t>() : of_span->second);
    }
  }
  WriteLinks(run, next, writer);
  return Gzip(writer.Bytes());
}

}  // namespace twofold::pictures
