#include "experiments/program/import/nsight.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/import/nccl_names.h"
#include "experiments/program/import/sqlite_database.h"
#include "experiments/program/report/gpu_kernels.h"

namespace twofold {
namespace {

constexpr char kRightExport[] = "give what nsys export --type=sqlite wrote";
constexpr char kKernels[] = "CUPTI_ACTIVITY_KIND_KERNEL";
constexpr std::array<std::string_view, 3> kDatabases = {".sqlite", ".sqlite3", ".db"};
constexpr std::array<std::string_view, 2> kReports = {".nsys-rep", ".qdrep"};  // of Nsight Systems itself
constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr int64_t kLatest = 4'000'000'000'000'000'000;  // since 1970: the year 2096

template <size_t kSize>
bool EndsWithOneOf(const std::string& file, const std::array<std::string_view, kSize>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return file.ends_with(end); });
}

// Serialized identifiers have the thread in their lowest 24 bits and the process above them.
int64_t ProcessOf(int64_t global_id) { return global_id >> 24; }
int64_t ProcessNumber(int64_t process) { return process & 0xffffff; }  // as the operating system has it

std::string_view CopyName(int64_t kind) {  // CUpti_ActivityMemcpyKind, and its classes in gpu_kernels.cc
  switch (kind) {
    case 1: return "Memcpy HtoD";
    case 2: return "Memcpy DtoH";
    case 8: return "Memcpy DtoD";
    case 9: return "Memcpy HtoH";
    case 10: return "Memcpy PtoP";
    case 11: return "Memcpy HtoD (unified memory)";
    case 12: return "Memcpy DtoH (unified memory)";
    case 13: return "Memcpy DtoD (unified memory)";
    default: return "Memcpy";
  }
}

struct Owner {  // of work
  int64_t device = 0, process = 0;
  auto operator<=>(const Owner&) const = default;
};

class ExportReader {
 public:
  ExportReader(const SqliteDatabase& database, const std::string& file) : database_(database), file_(file) {}

  std::vector<RankTrace> Read() {
    ReadStrings();
    ReadKernels();
    ReadCopies("CUPTI_ACTIVITY_KIND_MEMCPY", /*copies=*/true);
    ReadCopies("CUPTI_ACTIVITY_KIND_MEMSET", /*copies=*/false);
    if (work_.empty()) throw WrongDatabase{"has no kernels of a GPU; profile with nsys profile --trace=cuda,nvtx"};
    SetOrigin();
    KeepWorkers();
    ReadLaunches();
    ReadRanges();
    ReadDevices();
    std::vector<RankTrace> traces;
    for (auto& [owner, trace] : ranks_) traces.push_back(std::move(trace));
    return traces;
  }

 private:
  bool Has(const char* table) const { return !database_.ColumnsOf(table).empty(); }
  bool Has(const char* table, const char* column) const {
    const std::vector<std::string> columns = database_.ColumnsOf(table);
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  }

  void ReadStrings();
  void ReadKernels();
  void ReadCopies(const char* table, bool copies);
  void SetOrigin();
  void KeepWorkers();
  void ReadLaunches();
  void ReadRanges();
  void ReadDevices();
  std::string NameIn(const TableRows& rows, int column) const;
  std::string RangeText(const TableRows& rows, int text, int text_id) const;
  ImportedCall NcclCall(const std::string& name, const std::string& payload) const;
  DeviceSpan SpanOf(const TableRows& rows);
  int64_t Time(const TableRows& rows, int column) const;
  double Seconds(int64_t nanoseconds) const { return static_cast<double>(nanoseconds - origin_) * 1e-9; }
  int64_t Process(const TableRows& rows, int column) const {
    return processes_ ? ProcessOf(rows.MaybeWhole(column).value_or(0)) : 0;
  }
  template <class Each>
  void ForRanksOf(int64_t process, Each each) {
    for (auto& [owner, trace] : ranks_)
      if (owner.process == process) each(trace);
  }

  struct Timed {  // a span whose times are still whole nanoseconds
    DeviceSpan span;
    int64_t start, end;
  };

  const SqliteDatabase& database_;
  const std::string& file_;
  std::unordered_map<int64_t, std::string> strings_;
  bool processes_ = true;  // the export says which process did what
  std::map<Owner, std::vector<Timed>> work_;
  std::map<Owner, RankTrace> ranks_;
  int64_t origin_ = std::numeric_limits<int64_t>::max();
};

void ExportReader::ReadStrings() {
  if (!Has("StringIds")) throw WrongDatabase{StrCat("has no table StringIds: it is no export of nsys; ", kRightExport)};
  for (TableRows rows(database_, "StringIds", {{"id"}, {"value"}}); rows.Next();)
    strings_.emplace(rows.Whole(0), rows.Text(1).value_or(""));
}

std::string ExportReader::NameIn(const TableRows& rows, int column) const {
  const int64_t id = rows.Whole(column);
  const auto name = strings_.find(id);
  if (name == strings_.end()) rows.Fail(column, StrCat(id, " is not in StringIds"));
  return name->second;
}

int64_t ExportReader::Time(const TableRows& rows, int column) const {
  const int64_t time = rows.Whole(column);
  if (time < -kLatest || time > kLatest)
    rows.Fail(column, StrCat(time, " is out of range; expected nanoseconds, at most ", kLatest));
  return time;
}

// The columns that kernels and copies share, in this order.
const std::vector<WantedColumn> kOfWork = {{"start"},
                                           {"end"},
                                           {"deviceId"},
                                           {"streamId"},
                                           {"correlationId", /*optional=*/true},
                                           {"globalPid", /*optional=*/true}};
enum : int { kStart, kEnd, kDevice, kStream, kCorrelation, kProcess, kFirstOwn };

std::vector<WantedColumn> WorkAnd(std::initializer_list<WantedColumn> own) {
  std::vector<WantedColumn> columns = kOfWork;
  columns.insert(columns.end(), own);
  return columns;
}

// Keeps the span and returns what its table has of it, without a name.
DeviceSpan ExportReader::SpanOf(const TableRows& rows) {
  return {.name = "",
          .stream = rows.Whole(kStream),
          .device = rows.Whole(kDevice),
          .correlation = rows.MaybeWhole(kCorrelation).value_or(-1)};
}

void ExportReader::ReadKernels() {
  if (!Has(kKernels))
    throw WrongDatabase{StrCat("has no table ", kKernels, ": no work of a GPU was traced; profile with ",
                               "nsys profile --trace=cuda,nvtx")};
  processes_ = Has(kKernels, "globalPid");
  const char* name = Has(kKernels, "demangledName") ? "demangledName" : "shortName";
  for (TableRows rows(database_, kKernels, WorkAnd({{name}})); rows.Next();) {
    Timed t{SpanOf(rows), Time(rows, kStart), Time(rows, kEnd)};
    if (t.end < t.start) rows.Fail(kEnd, StrCat(t.end, " is before start, ", t.start));
    t.span.name = NameIn(rows, kFirstOwn);
    if (GpuWorkOf(t.span.name) == GpuWork::kCommunication)
      t.span.call = {.operation = OperationOf(t.span.name), .group = ""};
    work_[{t.span.device, Process(rows, kProcess)}].push_back(std::move(t));
  }
}

void ExportReader::ReadCopies(const char* table, bool copies) {
  if (!Has(table)) return;
  const WantedColumn kind = {"copyKind", /*optional=*/!copies};
  for (TableRows rows(database_, table, WorkAnd({{"bytes"}, kind})); rows.Next();) {
    Timed t{SpanOf(rows), Time(rows, kStart), Time(rows, kEnd)};
    if (t.end < t.start) rows.Fail(kEnd, StrCat(t.end, " is before start, ", t.start));
    t.span.name = copies ? CopyName(rows.MaybeWhole(kFirstOwn + 1).value_or(0)) : "Memset";
    t.span.bytes = rows.Whole(kFirstOwn);
    if (t.span.bytes < 0) rows.Fail(kFirstOwn, StrCat(t.span.bytes, " is out of range; expected 0 or more"));
    work_[{t.span.device, Process(rows, kProcess)}].push_back(std::move(t));
  }
}

// Times count from the first work, so that doubles hold their nanoseconds.
void ExportReader::SetOrigin() {
  for (const auto& [owner, spans] : work_)
    for (const Timed& t : spans) origin_ = std::min(origin_, t.start);
}

// A process touches other devices than its own, for peers' memory or by mistake: that makes no ranks of them.
void ExportReader::KeepWorkers() {
  std::map<int64_t, double> busiest;  // by process
  std::map<Owner, double> busy;
  for (const auto& [owner, spans] : work_) {
    for (const Timed& t : spans) busy[owner] += Seconds(t.end) - Seconds(t.start);
    busiest[owner.process] = std::max(busiest[owner.process], busy[owner]);
  }
  std::map<int64_t, int> left_out;
  for (auto& [owner, spans] : work_) {
    if (busy[owner] < 0.1 * busiest[owner.process]) {
      ++left_out[owner.process];
      continue;
    }
    RankTrace& trace = ranks_[owner];
    trace.program = "Nsight Systems", trace.fabric = "nsight-systems";
    for (Timed& t : spans) {
      t.span.start = Seconds(t.start), t.span.end = Seconds(t.end);
      trace.device.push_back(std::move(t.span));
    }
  }
  work_.clear();
  for (auto& [owner, trace] : ranks_) {
    trace.file = ranks_.size() == 1
                     ? file_
                     : StrCat(file_, ": GPU ", owner.device, " of process ", ProcessNumber(owner.process));
    if (const auto left = left_out.find(owner.process); left != left_out.end())
      trace.notes.push_back(StrCat("the trace has little work of ", Counted(left->second, "other GPU"),
                                   " in the same process, which is left out"));
  }
}

void ExportReader::ReadLaunches() {
  constexpr char kCalls[] = "CUPTI_ACTIVITY_KIND_RUNTIME";
  if (!Has(kCalls)) return;
  for (TableRows rows(database_, kCalls, {{"start"}, {"globalTid"}, {"correlationId"}}); rows.Next();) {
    const std::optional<int64_t> thread = rows.MaybeWhole(1), correlation = rows.MaybeWhole(2);
    if (!thread || !correlation || *correlation <= 0) continue;
    const KernelLaunch launch{*correlation, *thread, Seconds(Time(rows, 0))};
    ForRanksOf(processes_ ? ProcessOf(*thread) : 0, [&](RankTrace& trace) { trace.launches.push_back(launch); });
  }
}

std::string ExportReader::RangeText(const TableRows& rows, int text, int text_id) const {
  if (std::optional<std::string> own = rows.Text(text); own && !own->empty()) return *own;
  return rows.MaybeWhole(text_id) ? NameIn(rows, text_id) : "";
}

// NCCL annotates its calls: ncclAllReduce, with a payload of communicator and bytes. Without one, only the operation is
// known.
ImportedCall ExportReader::NcclCall(const std::string& name, const std::string& payload) const {
  ImportedCall call{.operation = OperationOf(name), .group = ""};
  const nlohmann::json json = nlohmann::json::parse(payload, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return call;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_number_integer()) continue;
    if (key.starts_with("Message size") && value >= 0 && value <= std::numeric_limits<int64_t>::max())
      call.bytes = value.get<int64_t>();
    if (key == "NCCL communicator ID") call.group = value.dump();
  }
  return call;
}

void ExportReader::ReadRanges() {
  constexpr char kRanges[] = "NVTX_EVENTS";
  if (!Has(kRanges)) return;
  constexpr int64_t kPushPop = 59, kStartEnd = 60;  // other events are marks, names of domains, ...
  const std::vector<WantedColumn> columns = {
      {"start"},           {"end"}, {"globalTid"}, {"text"}, {"textId", true}, {"eventType", true}, {"jsonText", true},
      {"jsonTextId", true}};
  for (TableRows rows(database_, kRanges, columns); rows.Next();) {
    const int64_t type = rows.MaybeWhole(5).value_or(kPushPop);
    if ((type != kPushPop && type != kStartEnd) || !rows.MaybeWhole(1)) continue;
    HostSpan span{.name = RangeText(rows, 3, 4), .start = 0, .end = 0, .thread = rows.MaybeWhole(2).value_or(0)};
    const int64_t start = Time(rows, 0), end = Time(rows, 1);
    if (span.name.empty() || end < start) continue;  // a range that nobody ended
    span.start = Seconds(start), span.end = Seconds(end);
    const bool is_call = span.name.starts_with("nccl") && !OperationOf(span.name).empty();
    const ImportedCall call = is_call ? NcclCall(span.name, RangeText(rows, 6, 7)) : ImportedCall{};
    ForRanksOf(processes_ ? ProcessOf(span.thread) : 0, [&](RankTrace& trace) {
      if (is_call)
        trace.calls.push_back({span, call});
      else
        trace.annotations.push_back(span);
    });
  }
}

void ExportReader::ReadDevices() {
  std::map<int64_t, std::string> names;  // of GPUs
  if (Has("TARGET_INFO_GPU")) {
    for (TableRows rows(database_, "TARGET_INFO_GPU", {{"id"}, {"name"}}); rows.Next();)
      names.emplace(rows.Whole(0), rows.Text(1).value_or(""));
  }
  std::map<Owner, int64_t> gpus;  // the GPU of a process's device; here processes have the operating system's numbers
  if (Has("TARGET_INFO_CUDA_DEVICE")) {
    for (TableRows rows(database_, "TARGET_INFO_CUDA_DEVICE", {{"gpuId"}, {"cudaId"}, {"pid"}}); rows.Next();)
      if (rows.MaybeWhole(0) && rows.MaybeWhole(1))
        gpus[{rows.Whole(1), rows.MaybeWhole(2).value_or(0)}] = rows.Whole(0);
  }
  int64_t clock = origin_;
  if (Has("TARGET_INFO_SESSION_START_TIME")) {
    TableRows rows(database_, "TARGET_INFO_SESSION_START_TIME", {{"utcEpochNs"}});
    if (rows.Next()) {
      const int64_t began = rows.Whole(0);
      if (began < 0 || began > kLatest) rows.Fail(0, StrCat(began, " is out of range; expected 0 to ", kLatest));
      clock += began;
    }
  }
  for (auto& [owner, trace] : ranks_) {
    trace.clock_nanoseconds = clock;
    const auto gpu = gpus.find({owner.device, ProcessNumber(owner.process)});
    const auto name = names.find(gpu == gpus.end() ? owner.device : gpu->second);
    if (name != names.end()) trace.device_name = name->second;
  }
}

absl::StatusOr<std::vector<RankTrace>> ReadFrom(const std::string& file, auto open) {
  try {
    const SqliteDatabase database = open();
    return ExportReader(database, file).Read();
  } catch (const WrongDatabase& wrong) {
    const bool other = wrong.what.starts_with("is not") || wrong.what.starts_with("SQLite");
    return InvalidArgument(file, ": ", wrong.what, other ? StrCat("; ", kRightExport) : "");
  }
}

}  // namespace

bool IsNsight(const std::string& file, std::string_view first_bytes) {
  return EndsWithOneOf(file, kDatabases) || EndsWithOneOf(file, kReports) || first_bytes.starts_with(kMagic);
}

absl::StatusOr<std::vector<RankTrace>> ReadNsight(const std::string& file) {
  if (EndsWithOneOf(file, kReports))
    return InvalidArgument(file, ": is a report of Nsight Systems; run nsys export --type=sqlite ", file,
                           " and give what that writes");
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (!error && size == 0) return InvalidArgument(file, ": is empty; ", kRightExport);
  return ReadFrom(file, [&] { return SqliteDatabase::OfFile(file); });
}

absl::StatusOr<std::vector<RankTrace>> ReadNsight(std::string_view bytes, const std::string& file) {
  if (bytes.empty()) return InvalidArgument(file, ": is empty; ", kRightExport);
  return ReadFrom(file, [&] { return SqliteDatabase::OfBytes(bytes); });
}

}  // namespace twofold
