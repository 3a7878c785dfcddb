#include "experiments/program/calibrate/from_table.h"

#include <google/protobuf/text_format.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "experiments/program/calibrate/fit_factors.h"
#include "experiments/program/calibrate/fit_laws.h"
#include "experiments/program/calibrate/law_table.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "sim/cost/laws/gpu_tiles.h"
#include "topologies/catalogue.h"

namespace twofold::calibrate {
namespace {

constexpr size_t kLeastRows = 20;

std::string ShortName(const std::string& columns) { return absl::StrReplaceAll(columns, {{"us_", ""}, {",", "+"}}); }

// Microseconds: geometric means over the columns that have a time; 0 if none has.
absl::StatusOr<std::vector<double>> Times(const LawTable& table, const std::string& columns) {
  std::vector<double> logs(table.rows()), counts(table.rows());
  for (const std::string& column : std::vector<std::string>(absl::StrSplit(columns, ','))) {
    if (!table.Has(column) || !column.starts_with("us_")) {
      return InvalidArgument("--column: \"", column, "\": ", table.path(),
                             " has no such column of times; its columns: ", absl::StrJoin(table.columns(), ", "));
    }
    const auto times = table.Numbers(column);
    if (!times.ok()) return times.status();
    for (size_t i = 0; i < table.rows(); ++i) {
      if ((*times)[i] > 0) logs[i] += std::log((*times)[i]), ++counts[i];
    }
  }
  for (size_t i = 0; i < table.rows(); ++i) logs[i] = counts[i] > 0 ? std::exp(logs[i] / counts[i]) : 0;
  return logs;
}

std::string FirstColumn(const LawTable& table) {
  for (const std::string& name : table.columns()) {
    if (name.starts_with("us_")) return name;
  }
  return "";
}

absl::StatusOr<std::vector<std::vector<int64_t>>> SizesOf(const LawTable& table,
                                                          std::initializer_list<std::string_view> names) {
  std::vector<std::vector<int64_t>> all;
  for (const std::string_view name : names) {
    auto column = table.Sizes(name);
    if (!column.ok()) return column.status();
    all.push_back(*std::move(column));
  }
  return all;
}

absl::StatusOr<std::vector<MeasuredProduct>> Products(const LawTable& table, const std::string& columns) {
  const auto us = Times(table, columns);
  if (!us.ok()) return us.status();
  const auto sizes = SizesOf(table, {"m", "n", "k"});
  if (!sizes.ok()) return sizes.status();
  std::vector<MeasuredProduct> rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    if ((*us)[i] > 0) rows.push_back({{1, (*sizes)[0][i], (*sizes)[1][i], (*sizes)[2][i]}, (*us)[i]});
  }
  return rows;
}

absl::StatusOr<std::vector<MeasuredAttention>> Attentions(const LawTable& table, const std::string& columns) {
  const auto us = Times(table, columns);
  if (!us.ok()) return us.status();
  const auto sizes = SizesOf(table, {"batch", "sequence", "heads", "kv_heads", "head_dim"});
  if (!sizes.ok()) return sizes.status();
  std::vector<MeasuredAttention> rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto at = [&](size_t column) { return (*sizes)[column][i]; };
    if (at(2) % at(3) != 0)
      return InvalidArgument(table.path(), ": row ", i + 1, ": kv_heads=", at(3), " does not divide heads=", at(2));
    if ((*us)[i] > 0)
      rows.push_back({{.batch = at(0),
                       .queries = at(1),
                       .keys = at(1),
                       .heads = at(2),
                       .kv_heads = at(3),
                       .head_dim = at(4),
                       .cached = true},
                      (*us)[i]});
  }
  return rows;
}

std::string LineOf(const std::string& name, const cluster::Residuals& r) {
  return absl::StrFormat("  %-26s %6d rows: median %4.1f %%, p90 %4.1f %%\n", name, r.count(), 100 * r.median(),
                         100 * r.p90());
}

template <class Law, class Row>
absl::Status Finish(const FromTable& options, const LawTable& table, const std::string& columns,
                    const cluster::Device& device, Law& law, const std::vector<Row>& rows, std::string_view large) {
  law.set_column(ShortName(columns));
  law.set_source(StrCat(std::filesystem::path(table.path()).filename().string(), ", ", columns));
  std::string text = StrCat(options.gpu, ", ", table.path(), ", ", columns,
                            ": errors of the rows left out of the fit (every fifth, by hash)\n");
  for (const cluster::Residuals& r : ResidualsOf(device.laws(), law, rows)) {
    *law.add_residuals() = r;
    StrAppend(&text, LineOf(absl::StrFormat("%s from %g", r.region(), r.from()), r));
  }
  StrAppend(&text, LineOf(std::string(large), LargeResiduals(device.laws(), law, rows)));
  if (!options.json) std::cout << text;
  return absl::OkStatus();
}

template <class Laws, class Law>
void Put(Laws& laws, const Law& law, const auto& same) {
  for (auto& one : laws) {
    if (!same(one)) continue;
    one = law;
    return;
  }
  *laws.Add() = law;
}

template <class Row>
absl::Status EnoughRows(const LawTable& table, const std::string& columns, const std::vector<Row>& rows) {
  if (rows.size() >= kLeastRows) return absl::OkStatus();
  return InvalidArgument(table.path(), ": ", rows.size(), " rows have a time in ", columns, "; a fit needs ",
                         kLeastRows, " or more");
}

absl::Status FitProductTable(const FromTable& options, const LawTable& table, const std::string& columns,
                             cluster::Device& device) {
  const auto rows = Products(table, columns);
  if (!rows.ok()) return rows.status();
  if (absl::Status s = EnoughRows(table, columns, *rows); !s.ok()) return s;
  cluster::ProductLaw law = FitProductLaw(device, options.dtype.empty() ? "bf16" : options.dtype, *rows);
  if (absl::Status s = Finish(options, table, columns, device, law, *rows, "m, n, k of 512 or more"); !s.ok()) return s;
  Put(*device.mutable_laws()->mutable_products(), law, [&law](const cluster::ProductLaw& other) {
    return other.dtype() == law.dtype() && other.column() == law.column();
  });
  return absl::OkStatus();
}

absl::Status FitAttention(const FromTable& options, const LawTable& table, const std::string& columns,
                          cluster::Device& device) {
  const auto rows = Attentions(table, columns);
  if (!rows.ok()) return rows.status();
  if (absl::Status s = EnoughRows(table, columns, *rows); !s.ok()) return s;
  cluster::AttentionLaw law = FitAttentionLaw(device, *rows);
  if (absl::Status s = Finish(options, table, columns, device, law, *rows, "512 tokens or more"); !s.ok()) return s;
  Put(*device.mutable_laws()->mutable_attention(), law,
      [&law](const cluster::AttentionLaw& other) { return other.column() == law.column(); });
  return absl::OkStatus();
}

absl::Status FitTable(const FromTable& options, const LawTable& table, cluster::Device& device) {
  const std::string columns = options.column.empty() ? FirstColumn(table) : options.column;
  cluster::KernelLaws& laws = *device.mutable_laws();
  if (table.HasAll({"batch", "sequence", "heads", "kv_heads", "head_dim"}))
    return FitAttention(options, table, columns, device);
  if (table.HasAll({"m", "n", "k", "layout", "accumulate", "out_dtype", "efficiency", "peak_tflops"}))
    return FitLayouts(table, laws);
  if (table.HasAll({"ng", "M", "N", "K", "stage", "efficiency", "peak_tflops"})) return FitGrouped(table, laws);
  if (table.HasAll({"pass", "batch", "seq_len", "head_num", "kv_head_num", "qk_head_dim", "v_head_dim", "efficiency",
                    "peak_tflops"}))
    return FitBackward(table, laws);
  if (table.HasAll({"m", "n", "k"})) return FitProductTable(options, table, columns, device);
  return InvalidArgument(
      "--from=", table.path(), ": its columns (", absl::StrJoin(table.columns(), ", "),
      ") are those of no law; products have m, n, k and us_NAME, attention has batch, sequence, "
      "heads, kv_heads, head_dim and us_NAME; collectives (collective, ranks, nodes, bytes, us) need "
      "--cluster and --cluster-out");
}

absl::Status CheckAsked(const FromTable& o) {
  if (o.gpu.empty() || o.out.empty()) {
    return InvalidArgument("--from=", o.table,
                           ": needs --gpu (a device of the catalogue, or a device's .textproto) and "
                           "--out (the .textproto to write)");
  }
  if (!o.dtype.empty() && o.dtype != "bf16" && o.dtype != "fp8" && o.dtype != "fp8_block")
    return InvalidArgument("--dtype must be bf16, fp8 or fp8_block (got \"", o.dtype, "\")");
  if (!o.out.ends_with(".textproto")) return InvalidArgument("--out=", o.out, ": must end in .textproto");
  return CheckOutFile("--out", o.out);
}

}  // namespace

absl::Status CalibrateFrom(const FromTable& options) {
  if (absl::Status s = CheckAsked(options); !s.ok()) return s;
  absl::StatusOr<cluster::Device> device = FindDevice(options.gpu, "--gpu");
  if (!device.ok()) return device.status();
  if (!(device->bf16_flops_per_second() > 0))
    return InvalidArgument(options.gpu,
                           ": bf16_flops_per_second: must be greater than 0; the fit's limits follow from it");
  if (absl::Status s = CheckLaws(device->laws()); !s.ok()) return InvalidArgument(options.gpu, ": laws.", s.message());
  const absl::StatusOr<LawTable> table = LawTable::Read(options.table);
  if (!table.ok()) return table.status();
  if (absl::Status s = FitTable(options, *table, *device); !s.ok()) return s;
  std::string text;
  google::protobuf::TextFormat::PrintToString(*device, &text);
  const std::filesystem::path target(options.out);
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  absl::Status written = WriteFiles(folder, {{target.filename().string(), text}});
  if (written.ok())
    std::cout << (options.json ? JsonText({{"out", options.out}, {"device", ToJson(*device)}}) : options.out + "\n");
  return written;
}

}  // namespace twofold::calibrate
