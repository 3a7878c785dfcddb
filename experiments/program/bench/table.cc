#include "experiments/program/bench/table.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/note_names.h"
#include "experiments/program/cli/note_text.h"

namespace twofold::bench {
namespace {

int Root(const Request& r) { return r.operation->rooted ? r.root : -1; }

// With at most two decimals, fewer if `width` has no room for them, and as a power of ten if even the integer does not
// fit.
std::string Fitted(double value, int width) {
  for (int decimals : {2, 1, 0}) {
    std::string text = absl::StrFormat("%.*f", decimals, value);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return absl::StrFormat("%.1e", value);
}
std::string Fitted(std::optional<double> value, int width) { return value ? Fitted(*value, width) : "N/A"; }

std::string VariantText(const Bench& bench, const Row& row, const std::optional<Timing>& timing) {
  std::string time = "N/A", algorithm = "N/A", bus = "N/A", wrong = "N/A";
  if (timing) {
    time = Fitted(timing->seconds * 1e6, 7);
    algorithm = Fitted(AlgorithmBandwidth(row, *timing), 6);
    bus = Fitted(BusBandwidth(bench, row, *timing), 6);
    if (timing->wrong) wrong = StrCat(*timing->wrong);
  }
  return absl::StrFormat("  %7s  %6s  %6s  %6s", time, algorithm, bus, wrong);
}

std::string RowText(const Bench& bench, const Row& row) {
  const Request& r = bench.request;
  return absl::StrFormat("%12d  %12d  %8s  %6s  %6d", row.bytes, row.block, std::string(NcclTypeName(r.dtype)),
                         std::string(NcclReduceName(r)), Root(r)) +
         VariantText(bench, row, row.out_of_place) + VariantText(bench, row, row.in_place) + "\n";
}

// How the table differs from nccl-tests, and why.
std::string FormText(const Operation& op) {
  if (!op.out_of_place) return StrCat("# out-of-place: N/A, ", op.name, " only works in place here\n");
  if (!op.in_place) return StrCat("# in-place: N/A, ", op.name, " never works in place here\n");
  return "";
}

std::string WayOf(const Row& row) { return StrCat(row.algorithm, row.protocol.empty() ? "" : " ", row.protocol); }

// "# ran: tree LL to 32768 B, ring Simple from 65536 B": consecutive rows with the same algorithm and protocol are
// merged.
std::string WaysText(const Bench& bench) {
  std::string text;
  for (size_t i = 0, next = 0; i < bench.rows.size(); i = next) {
    while (next < bench.rows.size() && WayOf(bench.rows[next]) == WayOf(bench.rows[i])) ++next;
    const std::string way = WayOf(bench.rows[i]);
    if (way.empty()) continue;
    StrAppend(&text, text.empty() ? "# ran: " : ", ", way);
    const int64_t first = bench.rows[i].bytes, last = bench.rows[next - 1].bytes;
    if (next - i == bench.rows.size()) break;
    StrAppend(&text, i == 0                      ? StrCat(" to ", last, " B")
                     : next == bench.rows.size() ? StrCat(" from ", first, " B")
                     : first == last             ? StrCat(" at ", first, " B")
                                                 : StrCat(" from ", first, " to ", last, " B"));
  }
  return text.empty() ? text : text + "\n";
}

nlohmann::ordered_json OrNull(const auto& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

nlohmann::ordered_json VariantJson(const Bench& bench, const Row& row, const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  nlohmann::ordered_json json;
  json["time"] = timing->seconds * 1e6;
  json["alg_bw"] = OrNull(AlgorithmBandwidth(row, *timing));
  json["bus_bw"] = OrNull(BusBandwidth(bench, row, *timing));
  json["nwrong"] = OrNull(timing->wrong);
  return json;
}

nlohmann::ordered_json RowJson(const Bench& bench, const Row& row) {
  const Request& r = bench.request;
  nlohmann::ordered_json json;
  json["size"] = row.bytes;
  json["count"] = row.block;
  json["type"] = NcclTypeName(r.dtype);
  json["redop"] = NcclReduceName(r);
  json["root"] = Root(r);
  json["algorithm"] = row.algorithm.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.algorithm);
  json["protocol"] = row.protocol.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.protocol);
  json["out_of_place"] = VariantJson(bench, row, row.out_of_place);
  json["in_place"] = VariantJson(bench, row, row.in_place);
  return json;
}

std::string VariantCsv(const Bench& bench, const Row& row, const std::optional<Timing>& timing) {
  if (!timing) return ",,,,";
  const auto number = [](const auto& value) { return value ? nlohmann::json(*value).dump() : std::string(); };
  return StrCat(",", nlohmann::json(timing->seconds * 1e6).dump(), ",", number(AlgorithmBandwidth(row, *timing)), ",",
                number(BusBandwidth(bench, row, *timing)), ",", number(timing->wrong));
}

}  // namespace

void NameWhatRan(const std::vector<RunResult::Ran>& ran, Bench& bench) {
  const Operation& op = *bench.request.operation;
  for (const RunResult::Ran& r : ran) {
    if (r.operation != KindName(op.kind)) continue;
    bench.library = r.library;
    for (Row& row : bench.rows) {
      if (row.bytes == r.bytes) row.algorithm = r.algorithm, row.protocol = r.protocol;
    }
  }
}

std::optional<double> AlgorithmBandwidth(const Row& row, const Timing& timing) {
  if (!(timing.seconds > 0)) return std::nullopt;
  return static_cast<double>(row.bytes) / timing.seconds / 1e9;
}

std::optional<double> BusBandwidth(const Bench& bench, const Row& row, const Timing& timing) {
  const std::optional<double> algorithm = AlgorithmBandwidth(row, timing);
  if (!algorithm) return std::nullopt;
  return *algorithm * bench.request.operation->bus_factor(bench.ranks);
}

std::optional<double> AverageBusBandwidth(const Bench& bench) {
  double sum = 0;
  int count = 0;
  for (const Row& row : bench.rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      const auto bus = timing ? BusBandwidth(bench, row, *timing) : std::nullopt;
      if (bus) sum += *bus, ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<int64_t> WrongValues(const Bench& bench) {
  std::optional<int64_t> wrong;
  for (const Row& row : bench.rows) {
    for (const auto& timing : {row.out_of_place, row.in_place}) {
      if (timing && timing->wrong) wrong = wrong.value_or(0) + *timing->wrong;
    }
  }
  return wrong;
}

std::string_view NcclTypeName(DType dtype) {
  constexpr std::string_view kNames[] = {"double", "float", "bfloat16", "half", "int32", "uint8"};
  return kNames[static_cast<int>(dtype)];
}

std::string_view NcclReduceName(const Request& r) {
  if (!r.operation->reduces) return "none";
  return r.reduce == ReduceOp::kProduct ? "prod" : ReduceOpName(r.reduce);
}

std::string HeaderText(const Bench& bench, const std::string& shown_notes) {
  const Request& r = bench.request;
  const Operation& op = *r.operation;
  std::string text = StrCat("# twofold bench ", op.name, " on ", bench.fabric, ": ", Counted(bench.ranks, "rank"));
  if (bench.device == "cuda") StrAppend(&text, " on GPUs");
  if (!bench.cluster.empty()) StrAppend(&text, " of cluster ", bench.cluster);
  if (!bench.library.empty()) StrAppend(&text, ", library ", bench.library);
  if (!bench.algorithm.empty()) StrAppend(&text, ", algorithm ", bench.algorithm);
  if (!bench.protocol.empty()) StrAppend(&text, ", protocol ", bench.protocol);
  StrAppend(&text, bench.predicted ? ", predicted\n" : ", measured\n");
  StrAppend(&text, WaysText(bench));
  const Sweep& s = bench.sweep;
  StrAppend(&text, "# minBytes ", s.least, " maxBytes ", s.most, " step: ", s.step > 0 ? s.step : s.factor,
            s.step > 0 ? "(bytes)" : "(factor)", " warmup iters: ", r.warmup, " iters: ", r.iterations,
            " validation: ", r.check ? 1 : 0, "\n");
  StrAppend(&text, "# time: ", bench.predicted ? "virtual, " : "",
            r.last_rank ? "mean over iterations, until the last rank is done; " : "mean over iterations and ranks; ",
            r.wait ? "each call ends before the next one starts (nccl-tests: --blocking 1)\n"
                   : "calls are issued while the ones before them run (--wait: one at a time)\n");
  if (bench.rounded) {
    StrAppend(&text, "# size: rounded down to whole elements on every rank; sizes below one element are left out\n");
  }
  StrAppend(&text, FormText(op));
  if (bench.predicted) StrAppend(&text, "# #wrong: N/A, a prediction moves no data\n");
  const std::vector<std::string> lines = absl::StrSplit(NotesText(bench.notes, shown_notes), '\n', absl::SkipEmpty());
  for (const std::string& line : lines) StrAppend(&text, "# ", line, "\n");
  return text + "#\n";
}

std::string RowsText(const Bench& bench) {
  std::string text = absl::StrFormat("#%63s%-33s%s\n", "", "out-of-place", "in-place");
  constexpr char kFour[] = "  %7s  %6s  %6s  %6s";
  const std::string measured = absl::StrFormat(kFour, "time", "algbw", "busbw", "#wrong");
  const std::string units = absl::StrFormat("  %7s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)");
  text += absl::StrFormat("#%11s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root") + measured +
          measured + "\n";
  text += absl::StrFormat("#%11s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "") + units +
          absl::StrFormat("%8s", "") + units + "\n";
  for (const Row& row : bench.rows) text += RowText(bench, row);
  return text;
}

std::string FooterText(const Bench& bench) {
  const std::optional<int64_t> wrong = WrongValues(bench);
  const std::optional<double> average = AverageBusBandwidth(bench);
  std::string text = "# Out of bounds values : ";
  StrAppend(&text, !wrong ? "N/A (nothing was checked)" : *wrong == 0 ? "0 OK" : StrCat(*wrong, " FAILED"), "\n");
  StrAppend(&text, "# Avg bus bandwidth    : ", average ? absl::StrFormat("%g", *average) : "N/A", "\n");
  return text;
}

std::string JsonText(const Bench& bench) {
  const Request& r = bench.request;
  nlohmann::ordered_json json;
  json["operation"] = r.operation->name;
  json["fabric"] = bench.fabric;
  json["device"] = bench.device.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.device);
  json["predicted"] = bench.predicted;
  json["ranks"] = bench.ranks;
  json["cluster"] = bench.cluster.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.cluster);
  json["library"] = bench.library.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.library);
  json["algorithm"] = bench.algorithm.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.algorithm);
  json["protocol"] = bench.protocol.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.protocol);
  json["warmup_iterations"] = r.warmup;
  json["iterations"] = r.iterations;
  json["wait"] = r.wait;
  json["validation"] = r.check;
  json["results"] = nlohmann::ordered_json::array();
  for (const Row& row : bench.rows) json["results"].push_back(RowJson(bench, row));
  json["out_of_bounds"] = OrNull(WrongValues(bench));
  json["average_bus_bandwidth"] = OrNull(AverageBusBandwidth(bench));
  json["notes"] = bench.notes;
  json["note_names"] = NoteNames(bench.notes);
  json["error"] = bench.error.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(bench.error);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string CsvText(const Bench& bench) {
  const Request& r = bench.request;
  std::string text = "size,count,type,redop,root";
  for (const char* form : {"out_of_place", "in_place"}) {
    for (const char* column : {"time_us", "alg_bw", "bus_bw", "nwrong"}) StrAppend(&text, ",", form, "_", column);
  }
  text += ",algorithm,protocol\n";
  for (const Row& row : bench.rows) {
    StrAppend(&text, row.bytes, ",", row.block, ",", NcclTypeName(r.dtype), ",", NcclReduceName(r), ",", Root(r),
              VariantCsv(bench, row, row.out_of_place), VariantCsv(bench, row, row.in_place), ",", row.algorithm, ",",
              row.protocol, "\n");
  }
  return text;
}

}  // namespace twofold::bench
