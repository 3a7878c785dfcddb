#include "experiments/program/report/trace.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/strings.h"
#include "core/memory/ledger.h"
#include "experiments/program/report/tables.h"

namespace twofold {
namespace {

using Json = nlohmann::ordered_json;

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Converts to the format's unit. Perfetto truncates to whole nanoseconds. The number must not be slightly too low, or
// consecutive spans would overlap and be dropped.
double Microseconds(int64_t nanoseconds) {
  const double us = static_cast<double>(nanoseconds) / 1e3;
  const bool below = static_cast<int64_t>(us * 1e3) < nanoseconds;
  return below ? std::nextafter(us, std::numeric_limits<double>::infinity()) : us;
}

// Appends events, one per line.
class EventList {
 public:
  void Add(const Json& event) {
    text_ += first_ ? "\n" : ",\n";
    first_ = false;
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  std::string Finish() && { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + text_ + "\n]}\n"; }

 private:
  std::string text_;
  bool first_ = true;
};

// Stream name to thread id: compute is 0, the others follow in alphabetical order.
std::map<std::string, int> StreamIds(const report::RankRecord& record) {
  std::map<std::string, int> ids;
  for (const report::Span& span : record.spans()) ids.emplace(span.stream(), 0);
  int next = 1;
  for (auto& [name, id] : ids) id = name == "compute" ? 0 : next++;
  return ids;
}

void AddNames(int64_t rank, const std::string& called, const std::map<std::string, int>& streams, EventList& events) {
  const auto name = [&](const char* what, int tid, Json args) {
    events.Add({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", tid}, {"args", std::move(args)}});
  };
  name("process_name", 0, {{"name", called}});
  name("process_sort_index", 0, {{"sort_index", rank}});
  for (const auto& [stream, id] : streams) {
    name("thread_name", id, {{"name", stream}});
    name("thread_sort_index", id, {{"sort_index", id}});
  }
}

void AddSpan(int64_t rank, const report::Span& span, int tid, double offset, EventList& events) {
  if (!std::isfinite(span.start()) || !std::isfinite(span.end())) return;
  const int64_t start = Nanoseconds(offset + span.start());
  const int64_t end = std::max(start, Nanoseconds(offset + span.end()));
  Json args = {{"bytes", span.bytes()}};
  if (span.waiting() > 0) args["waiting_us"] = Microseconds(Nanoseconds(span.waiting()));
  if (span.exposed() > 0) args["exposed_us"] = Microseconds(Nanoseconds(span.exposed()));
  if (!span.label().empty()) args["label"] = span.label();
  if (!span.shape().empty()) args["shape"] = span.shape();
  events.Add({{"ph", "X"},
              {"name", span.name()},
              {"pid", rank},
              {"tid", tid},
              {"ts", Microseconds(start)},
              {"dur", Microseconds(end - start)},
              {"args", std::move(args)}});
}

void AddMemory(int64_t rank, const report::MemorySample& sample, double offset, EventList& events) {
  if (!std::isfinite(sample.time())) return;
  Json live = Json::object();
  for (int c = 0; c < kCategories && c < sample.live_by_category_size(); ++c) {
    live[std::string(CategoryName(static_cast<Category>(c)))] = sample.live_by_category(c);
  }
  events.Add({{"ph", "C"},
              {"name", "memory"},
              {"pid", rank},
              {"tid", 0},
              {"ts", Microseconds(Nanoseconds(offset + sample.time()))},
              {"args", live}});
}

std::string NameOf(const RankRecords& records, int64_t rank, const report::RankRecord& record) {
  const size_t like_it = records.SharedBy(record) - 1;
  return records.size() <= kListedRanks || like_it == 0 ? StrCat("rank ", rank)
                                                        : StrCat("rank ", rank, " and ", like_it, " like it");
}

}  // namespace

std::string TraceJson(const RankRecords& records) {
  EventList events;
  const double origin = TraceOrigin(records);
  for (const auto& [rank, record] : records.traced()) {
    const std::map<std::string, int> streams = StreamIds(record);
    const double offset = record.trace_origin_seconds() - origin;
    AddNames(rank, NameOf(records, rank, record), streams, events);
    for (const report::Span& span : record.spans()) AddSpan(rank, span, streams.at(span.stream()), offset, events);
    for (const report::MemorySample& sample : record.samples()) AddMemory(rank, sample, offset, events);
  }
  return std::move(events).Finish();
}

}  // namespace twofold
