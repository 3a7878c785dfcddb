#include "experiments/program/report/tables.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_replace.h"
#include "core/base/strings.h"
#include "core/memory/ledger.h"

namespace twofold {
namespace {

std::string Digits(double value) {
  if (!std::isfinite(value)) return "";
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string Text(const std::string& value) {
  if (value.find_first_of(",\"\r\n") == std::string::npos) return value;
  return StrCat("\"", absl::StrReplaceAll(value, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string StepsCsv(const report::Report& report) {
  const bool codec = report.has_codec();
  std::string csv = StrCat("step,seconds,loss,exposed_communication_seconds",
                           codec ? ",bytes_before_codec,bytes_after_codec\n" : "\n");
  for (int i = 0; i < report.steps_size(); ++i) {
    const report::Step& step = report.steps(i);
    StrAppend(&csv, report.first_step() + i, ",", Digits(step.seconds()), ",", Digits(step.loss()), ",",
              Digits(step.exposed_communication_seconds()));
    if (codec) StrAppend(&csv, ",", step.bytes_before_codec(), ",", step.bytes_after_codec());
    csv += '\n';
  }
  return csv;
}

std::vector<double> LossesRead(const report::Report& report) {
  std::vector<double> losses;
  for (const report::Step& step : report.steps()) {
    if (step.has_loss()) losses.push_back(step.loss());
  }
  return losses;
}

std::string RoutingCsv(const RankRecords& records) {
  std::string csv;
  for (size_t i = 0; i < records.size(); ++i) {
    for (const report::RoutedChoices& routed : records[i].record.routed()) {
      if (csv.empty()) {
        csv = "rank,block";
        for (int e = 0; e < routed.tokens_size(); ++e) StrAppend(&csv, ",expert ", e);
        csv += '\n';
      }
      StrAppend(&csv, records[i].rank, ",", routed.block());
      for (const int64_t tokens : routed.tokens()) StrAppend(&csv, ",", tokens);
      csv += '\n';
    }
  }
  return csv;
}

std::string ValidationCsv(const report::Report& report) {
  std::string csv = "step,loss,accuracy,perplexity,seconds\n";
  for (const report::Validation& v : report.validations()) {
    StrAppend(&csv, v.step(), ",", Digits(v.loss()), ",", Digits(v.accuracy()), ",", Digits(v.perplexity()), ",",
              Digits(v.seconds()), "\n");
  }
  return csv;
}

std::string CollectivesCsv(const report::Report& report) {
  std::string csv = "operation,group,count,bytes,seconds\n";
  for (const report::Collective& c : report.collectives()) {
    StrAppend(&csv, Text(c.operation()), ",", Text(c.group()), ",", c.count(), ",", c.bytes(), ",", Digits(c.seconds()),
              "\n");
  }
  return csv;
}

double TraceOrigin(const RankRecords& records) {
  const std::vector<RankRecords::Of> traced = records.traced();
  double origin = traced.empty() ? 0 : traced[0].record.trace_origin_seconds();
  for (const auto& [rank, record] : traced) origin = std::min(origin, record.trace_origin_seconds());
  return origin;
}

std::string MemoryCsv(const RankRecords& records) {
  std::string csv = "rank,time";
  for (int c = 0; c < kCategories; ++c) StrAppend(&csv, ",", CategoryName(static_cast<Category>(c)));
  StrAppend(&csv, ",live,reserved\n");
  const double origin = TraceOrigin(records);
  for (const auto& [rank, record] : records.traced()) {
    const double offset = record.trace_origin_seconds() - origin;
    for (const report::MemorySample& sample : record.samples()) {
      StrAppend(&csv, rank, ",", Digits(offset + sample.time()));
      int64_t live = 0;
      for (int c = 0; c < kCategories; ++c) {
        const int64_t bytes = c < sample.live_by_category_size() ? sample.live_by_category(c) : 0;
        live += bytes;
        StrAppend(&csv, ",", bytes);
      }
      StrAppend(&csv, ",", live, ",", sample.reserved(), "\n");
    }
  }
  return csv;
}

}  // namespace twofold
