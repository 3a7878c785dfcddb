#include "experiments/program/pictures/perfetto_trace.h"

#include <map>
#include <set>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/pictures/perfetto.pb.h"
#include "experiments/program/report/gzip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace perfetto_test {

namespace proto = ::perfetto::protos;
using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

// Two stages: the first sends two micro-batches forward, the second sends one back.
RunData TwoStages() {
  RunData run;
  run.report.set_fabric("in_memory"), run.report.set_world_size(2);
  run.parallel.set_pp(2);
  const auto span = [](const std::string& name, double start, double end, const std::string& label, int64_t bytes) {
    return DrawnSpan{.name = name, .start = start * 1e-6, .end = end * 1e-6, .bytes = bytes, .label = label};
  };
  run.lanes = {{0, "compute", {span("matmul_nt", 0, 10, "F0", 0), span("matmul_nt", 10, 20, "F1", 0)}},
               {0,
                "communication pp",
                {span("send", 10, 12, "F0", 64), span("send", 20, 22, "F1", 64), span("recv", 21, 40, "B0", 64)}},
               {1, "compute", {span("gelu_forward", 12, 22, "F0", 0)}},
               {1,
                "communication pp",
                {span("recv", 1, 12, "F0", 64), span("recv", 12, 22, "F1", 64), span("send", 38, 40, "B0", 64),
                 span("send", 50, 51, "F1", 64)}}};
  run.lanes[3].spans[0].waiting = 9e-6, run.lanes[3].spans[0].exposed = 5e-6;
  run.categories = {"parameters", "gradients"};
  run.memory[1] = {.time = {0, 5e-6}, .by_category = {{100, 200}, {0, 0}}, .reserved = {512, 512}};
  return run;
}

struct Slice {
  std::string process, track, name, category;
  uint64_t start, end;
  std::map<std::string, std::string> arguments;
  std::vector<uint64_t> flows;
};
struct Read {
  std::vector<Slice> slices;
  std::map<std::string, std::vector<std::pair<uint64_t, int64_t>>> counters;  // by "process/track"
};

// A reader that knows the format only: names by their ids, in the order of the packets.
Read ReadTrace(const std::string& file) {
  const absl::StatusOr<std::string> bytes = Gunzip(file, 1 << 24);
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  proto::Trace trace;
  EXPECT_TRUE(trace.ParseFromString(*bytes));
  std::map<uint64_t, std::string> processes, categories, names, arguments;
  std::map<uint64_t, std::pair<std::string, std::string>> tracks;  // process and name
  std::map<uint64_t, size_t> open;                                 // slices by track
  Read read;
  for (int i = 0; i < trace.packet_size(); ++i) {
    const proto::TracePacket& packet = trace.packet(i);
    EXPECT_EQ(packet.sequence_flags(), i == 0 ? 1u : 2u);
    EXPECT_GT(packet.trusted_packet_sequence_id(), 0u);
    for (const auto& c : packet.interned_data().event_categories())
      EXPECT_TRUE(categories.emplace(c.iid(), c.name()).second);
    for (const auto& n : packet.interned_data().event_names()) EXPECT_TRUE(names.emplace(n.iid(), n.name()).second);
    for (const auto& n : packet.interned_data().debug_annotation_names())
      EXPECT_TRUE(arguments.emplace(n.iid(), n.name()).second);
    if (packet.has_track_descriptor()) {
      const proto::TrackDescriptor& t = packet.track_descriptor();
      EXPECT_GT(t.uuid(), 0u);
      if (t.has_process()) {
        EXPECT_GT(t.process().pid(), 0);
        processes[t.uuid()] = t.process().process_name();
      } else {
        EXPECT_TRUE(tracks.emplace(t.uuid(), std::pair(processes.at(t.parent_uuid()), t.name())).second);
      }
      continue;
    }
    const proto::TrackEvent& event = packet.track_event();
    const auto& [process, track] = tracks.at(event.track_uuid());
    if (event.type() == proto::TrackEvent::TYPE_COUNTER) {
      read.counters[StrCat(process, "/", track)].emplace_back(packet.timestamp(), event.counter_value());
    } else if (event.type() == proto::TrackEvent::TYPE_SLICE_BEGIN) {
      EXPECT_TRUE(open.emplace(event.track_uuid(), read.slices.size()).second) << "slices of a track do not overlap";
      Slice slice{.process = process,
                  .track = track,
                  .name = names.at(event.name_iid()),
                  .category = categories.at(event.category_iids(0)),
                  .start = packet.timestamp(),
                  .end = 0,
                  .arguments = {},
                  .flows = {event.flow_ids().begin(), event.flow_ids().end()}};
      for (const proto::DebugAnnotation& a : event.debug_annotations()) {
        slice.arguments[arguments.at(a.name_iid())] = a.has_string_value() ? a.string_value()
                                                      : a.has_int_value()  ? StrCat(a.int_value())
                                                                           : StrCat(a.double_value());
      }
      read.slices.push_back(slice);
    } else {
      EXPECT_EQ(event.type(), proto::TrackEvent::TYPE_SLICE_END);
      read.slices[open.at(event.track_uuid())].end = packet.timestamp();
      open.erase(event.track_uuid());
    }
  }
  EXPECT_TRUE(open.empty());
  return read;
}

TEST(PerfettoTrace, KernelsHaveShapesAndLinksHaveCounters) {
  RunData run = TwoStages();
  run.lanes[0].spans[1].shape = "3 x 4 x 5, f32";
  run.links = {.begin = 4e-6, .width = 2e-6, .rows = {}};
  run.links.rows.push_back(
      {.link = "up", .kind = "device to switch", .links = 3, .bandwidth = 1e9, .bytes = {1000, 1000, 500}});
  const Read read = ReadTrace(PerfettoTrace(run));
  int shaped = 0;
  for (const Slice& slice : read.slices) {
    const auto shape = slice.arguments.find("shape");
    if (shape == slice.arguments.end()) continue;
    ++shaped;
    EXPECT_EQ(shape->second, "3 x 4 x 5, f32");
    EXPECT_EQ(slice.start, 10000u);
  }
  EXPECT_EQ(shaped, 1);
  EXPECT_THAT(read.counters.at("links/bytes per second on up and 2 like it"),
              ElementsAre(Pair(4000, 500000000), Pair(8000, 250000000), Pair(10000, 0)));
}

TEST(PerfettoTrace, HasASliceForEachSpan) {
  const RunData run = TwoStages();
  const Read read = ReadTrace(PerfettoTrace(run));
  size_t spans = 0;
  for (const Lane& lane : run.lanes) spans += lane.spans.size();
  ASSERT_EQ(read.slices.size(), spans);
  const Slice& first = read.slices[0];
  EXPECT_EQ(first.process, "rank 0");
  EXPECT_EQ(first.track, "compute");
  EXPECT_EQ(first.name, "matmul_nt");
  EXPECT_EQ(first.category, "product");
  EXPECT_EQ(first.start, 0u);
  EXPECT_EQ(first.end, 10000u);
  EXPECT_THAT(first.arguments, UnorderedElementsAre(Pair("label", "F0"), Pair("micro_batch", "0"), Pair("stage", "0")));
  const Slice& received = read.slices[6];
  EXPECT_EQ(received.name, "recv");
  EXPECT_EQ(received.category, "communication");
  EXPECT_THAT(received.arguments,
              UnorderedElementsAre(Pair("bytes", "64"), Pair("waiting_us", "9"), Pair("exposed_us", "5"),
                                   Pair("label", "F0"), Pair("micro_batch", "0"), Pair("stage", "1")));
}

TEST(PerfettoTrace, FlowsLeadFromSendsToReceives) {
  const Read read = ReadTrace(PerfettoTrace(TwoStages()));
  std::map<uint64_t, std::vector<std::string>> flows;
  for (const Slice& s : read.slices) {
    for (const uint64_t flow : s.flows)
      flows[flow].push_back(StrCat(s.process, " ", s.name, " ", s.arguments.at("label")));
  }
  // The send of F1 from the last stage goes to nobody.
  EXPECT_THAT(flows, UnorderedElementsAre(Pair(1u, ElementsAre("rank 0 send F0", "rank 1 recv F0")),
                                          Pair(2u, ElementsAre("rank 0 send F1", "rank 1 recv F1")),
                                          Pair(3u, ElementsAre("rank 0 recv B0", "rank 1 send B0"))));
}

// With chunks, the last stage sends the first stage's next chunk.
TEST(PerfettoTrace, FlowsWrapAroundBetweenChunks) {
  RunData run = TwoStages();
  run.lanes[3].spans[2].label = "F0.0", run.lanes[1].spans[2].label = "F0.1";
  EXPECT_THAT(MessagesOf(run), testing::Contains(testing::Field(&Message::send, SpanPlace{3, 2})));
}

TEST(PerfettoTrace, CountersAreBytesOfMemory) {
  const Read read = ReadTrace(PerfettoTrace(TwoStages()));
  using Line = std::vector<std::pair<uint64_t, int64_t>>;
  EXPECT_THAT(read.counters, UnorderedElementsAre(Pair("rank 1/memory: parameters", Line{{0, 100}, {5000, 200}}),
                                                  Pair("rank 1/memory: reserved", Line{{0, 512}, {5000, 512}})));
}

TEST(PerfettoTrace, SpansThatOverlapGetTracksOfTheirOwn) {
  RunData run = TwoStages();
  run.lanes[0].spans[1].start = 5e-6;
  EXPECT_EQ(ReadTrace(PerfettoTrace(run)).slices.size(), 10u);  // the reader checks each track
}

// Perfetto reads by number: these are the published ones.
TEST(PerfettoTrace, FieldNumbersAreThePublishedOnes) {
  const auto numbers = [](const google::protobuf::Descriptor* d) {
    std::map<std::string, int> of;
    for (int i = 0; i < d->field_count(); ++i) of[d->field(i)->name()] = d->field(i)->number();
    return of;
  };
  using Numbers = std::map<std::string, int>;
  EXPECT_EQ(numbers(proto::Trace::descriptor()), (Numbers{{"packet", 1}}));
  EXPECT_EQ(numbers(proto::TracePacket::descriptor()), (Numbers{{"timestamp", 8},
                                                                {"trusted_packet_sequence_id", 10},
                                                                {"track_event", 11},
                                                                {"interned_data", 12},
                                                                {"sequence_flags", 13},
                                                                {"track_descriptor", 60}}));
  EXPECT_EQ(numbers(proto::InternedData::descriptor()),
            (Numbers{{"event_categories", 1}, {"event_names", 2}, {"debug_annotation_names", 3}}));
  EXPECT_EQ(numbers(proto::TrackDescriptor::descriptor()),
            (Numbers{{"uuid", 1}, {"name", 2}, {"process", 3}, {"parent_uuid", 5}, {"counter", 8}}));
  EXPECT_EQ(numbers(proto::ProcessDescriptor::descriptor()), (Numbers{{"pid", 1}, {"process_name", 6}}));
  EXPECT_EQ(numbers(proto::CounterDescriptor::descriptor()), (Numbers{{"unit", 3}}));
  EXPECT_EQ(numbers(proto::TrackEvent::descriptor()), (Numbers{{"category_iids", 3},
                                                               {"debug_annotations", 4},
                                                               {"type", 9},
                                                               {"name_iid", 10},
                                                               {"track_uuid", 11},
                                                               {"counter_value", 30},
                                                               {"flow_ids", 47}}));
  EXPECT_EQ(numbers(proto::DebugAnnotation::descriptor()),
            (Numbers{{"name_iid", 1}, {"int_value", 4}, {"double_value", 5}, {"string_value", 6}}));
  EXPECT_EQ(proto::TrackEvent::descriptor()->FindFieldByName("flow_ids")->type(),
            google::protobuf::FieldDescriptor::TYPE_FIXED64);
}

}  // namespace perfetto_test
}  // namespace twofold::pictures
