#include "experiments/program/import/kineto.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/import/host_work.h"
#include "experiments/program/import/nccl_names.h"
#include "experiments/program/report/gpu_kernels.h"
#include "experiments/program/report/gzip.h"

namespace twofold {
namespace {

using Json = nlohmann::json;

constexpr char kRight[] = "give a file that torch.profiler's export_chrome_trace wrote";
constexpr int64_t kMostUnpacked = int64_t{8} << 30;
constexpr double kMostMicroseconds = 4e15;  // since 1970: the year 2096

// An error in one event; caught where the file is read.
struct Wrong {
  std::string what;
};

template <class... Parts>
[[noreturn]] void Fail(const Parts&... parts) {
  throw Wrong{StrCat(parts...)};
}

std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 37) + "...";
  return text;
}

std::string TextOf(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return "";
  if (!at->is_string()) return Shown(*at);
  return at->get<std::string>();
}

// A whole number, which some versions write as a text; `none` if it is absent.
int64_t WholeOf(const Json& object, const char* key, int64_t none) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return none;
  if (at->is_number_unsigned() && at->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    Fail(key, ": ", Shown(*at), " is out of range; expected a whole number below 2^63");
  if (at->is_number_integer()) return at->get<int64_t>();
  if (at->is_number_float()) {
    const double value = at->get<double>();
    if (std::abs(value) < 9e18 && value == std::floor(value)) return static_cast<int64_t>(value);
  }
  if (at->is_string()) {
    const std::string& text = at->get_ref<const std::string&>();
    const bool digits = !text.empty() && text.size() < 19 &&
                        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return std::stoll(text);
  }
  Fail(key, ": ", Shown(*at), " is not a whole number");
}

int64_t CountOf(const Json& object, const char* key, int64_t none) {
  const int64_t value = WholeOf(object, key, none);
  if (value < 0 && value != none) Fail(key, ": ", value, " is out of range; expected 0 or more");
  return value;
}

double MicrosecondsOf(const Json& event, const char* key) {
  const auto at = event.find(key);
  if (at == event.end()) Fail(key, ": is missing; expected microseconds");
  if (!at->is_number()) Fail(key, ": ", Shown(*at), " is not a number; expected microseconds");
  const double value = at->get<double>();
  if (!(std::abs(value) < kMostMicroseconds)) Fail(key, ": ", Shown(*at), " is out of range; expected microseconds");
  return value;
}

const Json& ArgsOf(const Json& event) {
  static const Json kNone = Json::object();
  const auto args = event.find("args");
  if (args == event.end() || args->is_null()) return kNone;
  if (!args->is_object()) Fail("args: ", Shown(*args), " is not an object");
  return *args;
}

int64_t Times(int64_t elements, int64_t bytes) {
  int64_t product = 0;
  if (__builtin_mul_overflow(elements, bytes, &product)) Fail("args: ", elements, " elements are out of range");
  return product;
}

// Arguments that record_param_comms and, since PyTorch 2.2, kernels of NCCL have.
ImportedCall CallOf(const Json& args) {
  ImportedCall call;
  call.operation = OperationOf(TextOf(args, "Collective name"));
  call.group = TextOf(args, "Process Group Description");
  if (call.group.empty() || call.group == "undefined") call.group = TextOf(args, "Process Group Name");
  call.group_size = CountOf(args, "Group size", 0);
  const int64_t elements = std::max(CountOf(args, "In msg nelems", 0), CountOf(args, "Out msg nelems", 0));
  call.bytes = Times(elements, BytesOfType(TextOf(args, "dtype")));
  return call;
}

// Of the first tensor of `record_shapes=True`: "Input Dims": [[321271], ...], "Input type": ["float", ...]; else 0.
int64_t BytesOfInput(const Json& args) {
  const auto dims = args.find("Input Dims"), types = args.find("Input type");
  if (dims == args.end() || !dims->is_array() || dims->empty() || !dims->front().is_array()) return 0;
  if (types == args.end() || !types->is_array() || types->empty() || !types->front().is_string()) return 0;
  int64_t bytes = BytesOfType(types->front().get_ref<const std::string&>());
  for (const Json& dim : dims->front()) {
    if (!dim.is_number_unsigned()) return 0;
    bytes = Times(CountOf({{"Input Dims", dim}}, "Input Dims", 0), bytes);
  }
  return dims->front().empty() ? 0 : bytes;
}

enum class Kind { kNone, kDevice, kLaunch, kAnnotation, kHost, kMemory };

Kind KindOf(const std::string& category, const std::string& name) {
  static const std::map<std::string, Kind, std::less<>> kKinds = {{"kernel", Kind::kDevice},
                                                                  {"Kernel", Kind::kDevice},
                                                                  {"gpu_memcpy", Kind::kDevice},
                                                                  {"Memcpy", Kind::kDevice},
                                                                  {"gpu_memset", Kind::kDevice},
                                                                  {"Memset", Kind::kDevice},
                                                                  {"cuda_runtime", Kind::kLaunch},
                                                                  {"cuda_driver", Kind::kLaunch},
                                                                  {"Runtime", Kind::kLaunch},
                                                                  {"hip_runtime", Kind::kLaunch},
                                                                  {"user_annotation", Kind::kAnnotation},
                                                                  {"cpu_op", Kind::kHost},
                                                                  {"Operator", Kind::kHost},
                                                                  {"cpu_instant_event", Kind::kMemory}};
  const auto kind = kKinds.find(category);
  if (kind == kKinds.end()) return Kind::kNone;
  if (kind->second == Kind::kMemory && name != "[memory]") return Kind::kNone;
  return kind->second;
}

// PyTorch's legacy profiler, which builds without Kineto use, has two made-up processes in place of categories.
Kind LegacyKindOf(const Json& event) {
  const std::string process = TextOf(event, "pid");
  if (process == "CUDA functions")
    Fail(
        "pid: \"CUDA functions\" is of PyTorch's legacy profiler, which knows no streams; profile GPUs with "
        "torch.profiler");
  return process == "CPU functions" ? Kind::kHost : Kind::kNone;
}

class Reader {
 public:
  explicit Reader(RankTrace& out) : out_(out) {}

  void Event(const Json& event) {
    ++events_;
    if (!event.is_object()) Fail(Shown(event), " is not an object");
    const std::string category = TextOf(event, "cat"), name = TextOf(event, "name");
    const Kind kind = category.empty() ? LegacyKindOf(event) : KindOf(category, name);
    legacy_ = legacy_ || (category.empty() && kind != Kind::kNone);
    if (kind == Kind::kNone) return;
    if (kind == Kind::kMemory) return Memory(event);
    if (TextOf(event, "ph") != "X") return;  // flows and metadata
    HostSpan span{.name = name, .start = TimeOf(event)};
    const double duration = event.contains("dur") ? MicrosecondsOf(event, "dur") : 0;
    if (duration < 0) Fail("dur: ", Shown(event["dur"]), " is out of range; expected 0 or more microseconds");
    span.end = span.start + duration * 1e-6;
    const Json& args = ArgsOf(event);
    if (kind == Kind::kDevice) return Device(span, event, args);
    span.thread = ThreadOf(event);
    if (kind == Kind::kLaunch) {
      const int64_t correlation = WholeOf(args, "correlation", -1);
      if (correlation > 0) out_.launches.push_back({correlation, span.thread, span.start});
    } else if (name == "record_param_comms") {
      out_.calls.push_back({std::move(span), CallOf(args)});
    } else {
      if (name.starts_with("gloo:")) span.bytes = BytesOfInput(args);
      out_.annotations.push_back(std::move(span));  // older versions write annotations as operators
    }
  }
  int64_t events() const { return events_; }
  bool legacy() const { return legacy_; }
  double origin() const { return origin_.value_or(0); }  // microseconds: where times begin

 private:
  // Seconds since the first event. Since 1970, a double could not hold their nanoseconds.
  double TimeOf(const Json& event) {
    const double microseconds = MicrosecondsOf(event, "ts");
    if (!origin_) origin_ = std::floor(microseconds);
    return (microseconds - *origin_) * 1e-6;
  }
  void Device(const HostSpan& host, const Json& event, const Json& args) {
    DeviceSpan span{.name = host.name,
                    .start = host.start,
                    .end = host.end,
                    .stream = StreamOf(event, args),
                    .device = WholeOf(args, "device", 0),
                    .bytes = CountOf(args, "bytes", 0),
                    .correlation = WholeOf(args, "correlation", -1)};
    if (GpuWorkOf(span.name) == GpuWork::kCommunication) {
      span.call = CallOf(args);
      if (span.call->operation.empty()) span.call->operation = OperationOf(span.name);
    }
    out_.device.push_back(std::move(span));
  }
  // Older traces have the stream as the thread alone: 7, or "stream 7".
  int64_t StreamOf(const Json& event, const Json& args) {
    if (args.contains("stream")) return WholeOf(args, "stream", 0);
    Json tid = event.value("tid", Json(0));
    if (tid.is_string() && tid.get_ref<const std::string&>().starts_with("stream "))
      tid = tid.get<std::string>().substr(7);
    return WholeOf({{"tid", tid}}, "tid", 0);
  }
  int64_t ThreadOf(const Json& event) {
    const std::string name = StrCat(TextOf(event, "pid"), " ", TextOf(event, "tid"));
    return threads_.try_emplace(name, static_cast<int64_t>(threads_.size())).first->second;
  }
  void Memory(const Json& event) {
    const Json& args = ArgsOf(event);
    if (WholeOf(args, "Device Type", 1) != 1 || !args.contains("Total Allocated")) return;  // 1: CUDA; 0: host memory
    out_.memory.push_back({.time = TimeOf(event),
                           .allocated = CountOf(args, "Total Allocated", 0),
                           .reserved = CountOf(args, "Total Reserved", 0)});
  }

  RankTrace& out_;
  int64_t events_ = 0;
  bool legacy_ = false;
  std::optional<double> origin_;
  std::map<std::string, int64_t> threads_;
};

void ReadHeader(const Json& json, RankTrace& out) {
  if (const auto info = json.find("distributedInfo"); info != json.end() && info->is_object()) {
    const int64_t rank = WholeOf(*info, "rank", -1), size = WholeOf(*info, "world_size", -1);
    constexpr int64_t kMostRanks = 1 << 20;
    if (info->contains("rank") && info->contains("world_size")) {  // tools that benchmark write the rank alone
      if (size < 1 || size > kMostRanks)
        Fail("distributedInfo.world_size: ", size, " is out of range; expected 1 to ", kMostRanks);
      if (rank < 0 || rank >= size) Fail("distributedInfo.rank: ", rank, " is out of range; expected 0 to ", size - 1);
      out.rank = rank, out.world_size = size;
    }
  }
  const auto devices = json.find("deviceProperties");
  if (devices != json.end() && devices->is_array() && !devices->empty() && devices->front().is_object())
    out.device_name = TextOf(devices->front(), "name");
}

void Parse(std::string_view text, Reader& reader, RankTrace& out) {
  std::string key;       // the top object's
  bool in_list = false;  // the top value is the list of events
  const auto each = [&](int depth, Json::parse_event_t what, Json& parsed) {
    if (depth == 0 && what == Json::parse_event_t::array_start) in_list = true;
    if (depth == 1 && what == Json::parse_event_t::key) key = parsed.get<std::string>();
    const bool element = in_list ? depth == 1 : depth == 2 && key == "traceEvents";
    // Elements are read one by one and dropped: all of them would take several times the file's size.
    if (!element || what == Json::parse_event_t::object_start || what == Json::parse_event_t::array_start ||
        what == Json::parse_event_t::key)
      return true;
    try {
      reader.Event(parsed);
    } catch (const Wrong& wrong) {
      throw Wrong{StrCat("traceEvents[", reader.events() - 1, "].", wrong.what)};
    }
    return false;
  };
  const Json json = Json::parse(text, each);
  out.clock_nanoseconds = std::llround(reader.origin() * 1e3);
  if (in_list) return;
  if (!json.is_object() || !json.contains("traceEvents"))
    Fail("is not a trace: it has no list of traceEvents; ", kRight);
  if (!json["traceEvents"].is_array()) Fail("traceEvents: ", Shown(json["traceEvents"]), " is not a list; ", kRight);
  ReadHeader(json, out);
  const int64_t base = WholeOf(json, "baseTimeNanoseconds", 0);
  constexpr int64_t kMostNanoseconds = 4'000'000'000'000'000'000;
  if (base < 0 || base > kMostNanoseconds)
    Fail("baseTimeNanoseconds: ", base, " is out of range; expected 0 to ", kMostNanoseconds);
  out.clock_nanoseconds += base;
}

bool CallsNccl(const RankTrace& trace) {
  return std::any_of(trace.annotations.begin(), trace.annotations.end(),
                     [](const HostSpan& a) { return a.name.starts_with("nccl:"); });
}

}  // namespace

absl::StatusOr<RankTrace> ReadKineto(std::string_view bytes, const std::string& file) {
  RankTrace out;
  out.file = file, out.program = "PyTorch's profiler", out.fabric = "pytorch";
  out.records_memory = "profile_memory=True";
  std::string unpacked;
  if (IsGzip(bytes)) {
    absl::StatusOr<std::string> text = Gunzip(bytes, kMostUnpacked);
    if (!text.ok()) return InvalidArgument(file, ": ", text.status().message());
    unpacked = *std::move(text), bytes = unpacked;
  }
  if (bytes.empty()) return InvalidArgument(file, ": is empty; ", kRight);
  Reader reader(out);
  try {
    Parse(bytes, reader, out);
  } catch (const Wrong& wrong) {
    return InvalidArgument(file, ": ", wrong.what);
  } catch (const Json::parse_error& error) {
    if (error.byte > bytes.size())
      return InvalidArgument(file, ": ends at byte ", bytes.size(), " and seems to be cut short; ", kRight);
    return InvalidArgument(file, ": byte ", error.byte, ": is not JSON; ", kRight);
  } catch (const Json::exception&) {
    return InvalidArgument(file, ": has a number that is out of range; ", kRight);
  }
  if (reader.legacy())
    out.notes.push_back(
        "times in a trace of the legacy profiler begin with it: time lines of several ranks are not aligned");
  // Of a job on GPUs that was profiled without them, the host's operators are no work: they launch it.
  const bool on_gpu = !out.device_name.empty() || !out.launches.empty() || CallsNccl(out);
  if (out.device.empty() && (on_gpu || !TakeHostWork(out))) {
    return InvalidArgument(file, ": has ", reader.events(), " events, but no kernels of a GPU",
                           on_gpu ? "" : " and no operators of a CPU", "; profile with ProfilerActivity.",
                           on_gpu ? "CUDA" : "CUDA, or jobs on CPUs with ProfilerActivity.CPU");
  }
  return out;
}

}  // namespace twofold
