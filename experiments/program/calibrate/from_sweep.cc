#include "experiments/program/calibrate/from_sweep.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <tuple>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/host/interrupt.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/bench/plan.h"
#include "experiments/program/calibrate/law_table.h"
#include "experiments/program/calibrate/out_file.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/calibrate/search.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "sim/collectives/nccl_costs.h"
#include "topologies/catalogue.h"

namespace twofold::calibrate {
namespace {

constexpr size_t kLeastCalls = 20;
constexpr int kMostSweepRounds = 20, kTold = 50;
constexpr double kMostCallError = 0.4, kAnyError = 1e9, kLeastSweepStep = 0.01;
constexpr double kNoCall = 0.05;    // microseconds: less is none
constexpr double kLeastTime = 0.1;  // at which the search begins: it changes values by factors

struct MeasuredCall {
  int64_t block;  // elements of a block, as `bench` counts them
  double us;
  bool left_out;
  double before = 0, after = 0;  // predicted
};

// The rows of one collective on so many ranks and nodes: one run of `bench`.
struct Series {
  bench::Options options;
  std::string name;
  int ranks, nodes;
  bool messages;  // all_to_all and send_recv
  std::vector<MeasuredCall> rows;
};

bool IsMessages(std::string_view collective) { return collective == "all_to_all" || collective == "send_recv"; }

absl::StatusOr<std::vector<Series>> SeriesOf(const LawTable& table, const std::string& scratch) {
  if (!table.HasAll({"collective", "ranks", "nodes", "bytes", "us"})) {
    return InvalidArgument("--from=", table.path(), ": has the columns ", absl::StrJoin(table.columns(), ", "),
                           "; a table of collectives has collective, ranks, nodes, bytes and us");
  }
  const auto ranks = table.Sizes("ranks"), nodes = table.Sizes("nodes");
  const auto bytes = table.Numbers("bytes"), us = table.Numbers("us");
  for (const absl::Status& s : {ranks.status(), nodes.status(), bytes.status(), us.status()}) {
    if (!s.ok()) return s;
  }
  std::map<std::tuple<std::string, int64_t, int64_t>, Series> found;
  for (size_t i = 0; i < table.rows(); ++i) {
    const std::string collective(table.Text(i, "collective"));
    const auto wrong = [&](const auto&... why) { return InvalidArgument(table.path(), ": row ", i + 1, ": ", why...); };
    const bench::Operation* operation = bench::FindOperation(collective);
    if (operation == nullptr)
      return wrong("collective: \"", collective, "\": use a name of `twofold bench`, such as all_reduce");
    const int64_t n = (*ranks)[i], machines = (*nodes)[i];
    if (n % machines != 0) return wrong("nodes: ", machines, ": does not divide ranks = ", n);
    if (n < 2) return wrong("ranks: ", n, ": a collective needs at least 2");
    if (!((*us)[i] > 0)) return wrong("us: ", (*us)[i], ": must be greater than 0");
    const int64_t block =
        bench::BlockCount(*operation, static_cast<int64_t>((*bytes)[i]), DType::kF32, static_cast<int>(n));
    if (block == 0) continue;  // less than one element on every rank
    Series& series = found[{collective, n, machines}];
    if (series.rows.empty()) {
      series = {.options = {.operation = collective,
                            .fabric = "simulated",
                            .ranks = static_cast<int>(n),
                            .nodes = static_cast<int>(machines),
                            .ranks_per_node = static_cast<int>(n / machines),
                            .cluster = scratch},
                .name = StrCat(collective, ", ", n, " ranks on ", Counted(static_cast<int>(machines), "node")),
                .ranks = static_cast<int>(n),
                .nodes = static_cast<int>(machines),
                .messages = IsMessages(collective),
                .rows = {}};
    }
    const std::string key = StrCat(collective, ",", n, ",", machines, ",", static_cast<int64_t>((*bytes)[i]));
    series.rows.push_back({block, (*us)[i], Fnv(key) % 5 == 0});
  }
  std::vector<Series> all;
  for (auto& [_, series] : found) all.push_back(std::move(series));
  return all;
}

// Microseconds, by block.
absl::StatusOr<std::map<int64_t, double>> Predict(const Series& series) {
  absl::StatusOr<bench::Plan> plan = bench::MakePlan(series.options);
  if (!plan.ok()) return InvalidArgument(series.name, ": ", plan.status().message());
  std::vector<int64_t>& blocks = plan->bench.request.blocks;
  blocks.clear();
  for (const MeasuredCall& row : series.rows) blocks.push_back(row.block);
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  if (absl::Status s = bench::Run(*plan); !s.ok()) return s;
  std::map<int64_t, double> us;
  for (const bench::Row& row : plan->bench.rows)
    us[row.block] = 1e6 * (row.out_of_place ? row.out_of_place : row.in_place)->seconds;
  return us;
}

// A cluster whose constants change, in a file that `bench` reads.
class LinkFit {
 public:
  LinkFit(cluster::Cluster cluster, std::vector<Series> series, std::string scratch)
      : cluster_(std::move(cluster)), series_(std::move(series)), scratch_(std::move(scratch)) {}

  absl::Status Run() {
    if (absl::Status s = PredictAll(&MeasuredCall::before); !s.ok()) return s;
    std::vector<Constant> constants = Constants();
    absl::Status failed;
    for (const double most : {kAnyError, kMostCallError}) {  // errors that do not count show no direction
      Search(
          constants, kMostSweepRounds,
          [&] {
            if (failed.ok()) failed = PredictAll(&MeasuredCall::after);
            if (failed.ok() && ++trials_ % kTold == 0)
              LogInfo(trials_, " trials: median error of the fitted rows ",
                      Median(AllRows(), &MeasuredCall::after, false));
            return failed.ok() ? Loss(most) : 0;
          },
          kLeastSweepStep);
      if (!failed.ok()) return failed;
    }
    for (size_t i = 0; i < constants.size(); ++i) {
      after_.push_back(Rounded(constants[i].value));
      at_limit_.push_back(constants[i].value == constants[i].low || constants[i].value == constants[i].high);
      constants[i].set(after_.back());
    }
    if (nccl().call_us() < kNoCall) nccl().set_call_us(0), after_.back() = 0, at_limit_.back() = false;
    return PredictAll(&MeasuredCall::after);
  }

  const cluster::Cluster& cluster() const { return cluster_; }

  std::string Text() const {
    std::string text = "constants:\n";
    for (size_t i = 0; i < names_.size(); ++i)
      StrAppend(&text, absl::StrFormat("  %-46s %8.3g, before %.3g%s\n", names_[i], after_[i], before_[i],
                                       at_limit_[i] ? "; at the limit of the search" : ""));
    StrAppend(&text, "median error, of the rows left out of the fit (every fifth, by hash) and of the others:\n");
    for (const Series& s : series_) StrAppend(&text, CallLine(s.name, s.rows));
    return text + CallLine("all", AllRows());
  }
  // "12.9 %"; "-" without such rows.
  std::string ErrorLeftOut() const { return Median(AllRows(), &MeasuredCall::after, true); }

 private:
  cluster::Nccl& nccl() { return *cluster_.mutable_library()->mutable_nccl(); }

  absl::Status PredictAll(double MeasuredCall::*predicted) {
    if (host::InterruptScope::Raised()) return absl::CancelledError("interrupted; no file was written");
    std::string text;
    google::protobuf::TextFormat::PrintToString(cluster_, &text);
    // in place: a file that only this process reads need not reach the disk
    if (!(std::ofstream(scratch_) << text << std::flush)) return Internal(scratch_, ": cannot be written");
    for (Series& s : series_) {
      const auto us = Predict(s);
      if (!us.ok()) return us.status();
      for (MeasuredCall& row : s.rows) row.*predicted = us->at(row.block);
    }
    return absl::OkStatus();
  }

  std::vector<MeasuredCall> AllRows() const {
    std::vector<MeasuredCall> all;
    for (const Series& s : series_) all.insert(all.end(), s.rows.begin(), s.rows.end());
    return all;
  }

  double Loss(double most) const {
    double sum = 0;
    for (const Series& s : series_) {
      for (const MeasuredCall& row : s.rows)
        sum += row.left_out ? 0 : std::min(most, std::abs(std::log(row.after / row.us)));
    }
    return sum;
  }

  std::vector<Constant> Constants() {
    const bool rccl = cluster_.library().name() == "rccl";
    const sim::NcclCosts now = *sim::ReadNcclCosts(nccl(), rccl);
    std::vector<Constant> constants;
    const auto add = [&](const char* name, double value, double low, double high, std::function<void(double)> set) {
      names_.push_back(name), before_.push_back(value);
      constants.push_back({std::move(set), std::max(value, kLeastTime), low, high});
    };
    const auto any = [&](auto which) { return std::any_of(series_.begin(), series_.end(), which); };
    if (any([](const Series& s) { return s.ranks > s.nodes; }))
      add("library.nccl.nvlink_efficiency", now.nvlink_share, 0.05, 1,
          [this](double v) { nccl().set_nvlink_efficiency(v); });
    if (any([](const Series& s) { return s.nodes > 1 && !s.messages; }))
      add("library.nccl.network_efficiency", now.network_share, 0.05, 1,
          [this](double v) { nccl().set_network_efficiency(v); });
    if (any([](const Series& s) { return s.nodes > 1 && s.messages; }))
      add("library.nccl.messages_network_efficiency", now.messages_network_share, 0.05, 1,
          [this](double v) { nccl().set_messages_network_efficiency(v); });
    if (any([](const Series& s) { return s.nodes > 1; }))
      add("machines.network.nic_us", cluster_.machines().network().nic_us(), 0.05, 100,
          [this](double v) { cluster_.mutable_machines()->mutable_network()->set_nic_us(v); });
    add("library.nccl.call_us", nccl().call_us(), 0.01, 1000, [this](double v) { nccl().set_call_us(v); });
    return constants;
  }

  static std::string Median(const std::vector<MeasuredCall>& rows, double MeasuredCall::*predicted, bool left_out) {
    std::vector<double> errors;
    for (const MeasuredCall& row : rows) {
      if (row.left_out == left_out) errors.push_back(std::abs(row.*predicted / row.us - 1));
    }
    return errors.empty() ? "-" : absl::StrFormat("%.1f %%", 100 * Quantile(errors, 0.5));
  }

  static std::string CallLine(const std::string& name, const std::vector<MeasuredCall>& rows) {
    const auto median = [&](double MeasuredCall::*predicted, bool left_out) {
      return Median(rows, predicted, left_out);
    };
    return absl::StrFormat("  %-46s %4d rows: %8s and %8s, before %8s and %8s\n", name, rows.size(),
                           median(&MeasuredCall::after, true), median(&MeasuredCall::after, false),
                           median(&MeasuredCall::before, true), median(&MeasuredCall::before, false));
  }

  cluster::Cluster cluster_;
  std::vector<Series> series_;
  const std::string scratch_;
  std::vector<std::string> names_;
  std::vector<double> before_, after_;
  std::vector<bool> at_limit_;
  int trials_ = 0;
};

absl::StatusOr<cluster::Cluster> ClusterOf(const FromSweep& o) {
  if (o.cluster.empty() || o.out.empty())
    return InvalidArgument("--from=", o.table, ": a table of collectives needs --cluster and --cluster-out");
  if (!o.out.ends_with(".textproto")) return InvalidArgument("--cluster-out=", o.out, ": must end in .textproto");
  if (absl::Status s = CheckOutFile("--cluster-out", o.out); !s.ok()) return s;
  absl::StatusOr<cluster::Cluster> cluster = FindCluster(o.cluster, "--cluster");
  if (!cluster.ok()) return cluster;
  const std::string& library = cluster->library().name();
  if (library != "nccl" && library != "rccl") {
    return InvalidArgument("--cluster=", o.cluster, ": its library is ", library.empty() ? "ideal" : library,
                           "; constants of nccl and rccl are fitted");
  }
  if (!cluster->has_machines())
    return InvalidArgument("--cluster=", o.cluster, ": has no machines: nodes with devices, whose links are fitted");
  return cluster;
}

}  // namespace

absl::Status CalibrateSweep(const FromSweep& o) {
  absl::StatusOr<cluster::Cluster> cluster = ClusterOf(o);
  if (!cluster.ok()) return cluster.status();
  const absl::StatusOr<LawTable> table = LawTable::Read(o.table);
  if (!table.ok()) return table.status();
  const std::string scratch = StrCat(o.out, ".fit.textproto");  // the simulator reads clusters from files
  const absl::Cleanup remove = [&] {
    std::error_code none;
    std::filesystem::remove(scratch, none);
  };
  absl::StatusOr<std::vector<Series>> series = SeriesOf(*table, scratch);
  if (!series.ok()) return series.status();
  size_t rows = 0;
  for (const Series& s : *series) rows += s.rows.size();
  if (rows < kLeastCalls)
    return InvalidArgument(o.table, ": has ", rows, " usable rows; a fit needs ", kLeastCalls, " or more");
  LogInfo("fitting links to ", rows, " rows of ", Counted(static_cast<int>(series->size()), "collective"));
  if (rows < table->rows()) {
    LogWarning(o.table, ": ", table->rows() - rows, " of ", table->rows(),
               " rows are left out: they have less than one float on every rank");
  }
  const host::InterruptScope interrupt;
  LinkFit fit(*std::move(cluster), *std::move(series), scratch);
  if (absl::Status s = fit.Run(); !s.ok()) return s;
  cluster::Cluster fitted = fit.cluster();
  const std::string source = std::filesystem::path(o.table).filename().string();
  fitted.set_source(
      StrCat(fitted.source(), fitted.source().empty() ? "" : "; ", "links and library: fitted to ", source,
             " by `twofold calibrate --from`; median error of the rows left out of the fit: ", fit.ErrorLeftOut()));
  if (absl::Status s = Write(fitted, "--cluster-out", o.out); !s.ok()) return s;
  std::cout << (o.json ? JsonText({{"out", o.out}, {"cluster", ToJson(fitted)}}) : StrCat(fit.Text(), o.out, "\n"));
  return absl::OkStatus();
}

}  // namespace twofold::calibrate
