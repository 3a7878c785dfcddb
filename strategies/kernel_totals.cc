#include "strategies/kernel_totals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/proto/report.pb.h"

namespace twofold {
namespace {

report::Source Named(Source source) {
  switch (source) {
    case Source::kCalibrated: return report::CALIBRATED;
    case Source::kTable: return report::TABLE;
    case Source::kLaw: return report::LAW;
    case Source::kDataSheet: return report::DATA_SHEET;
    case Source::kExtrapolated: return report::EXTRAPOLATED;
  }
  __builtin_unreachable();
}

// The value that this share of all values does not exceed.
double Percentile(std::vector<double> values, double share) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class Value>
Value& At(std::map<std::string, Value, std::less<>>& all, std::string_view key) {
  const auto known = all.find(key);
  return known != all.end() ? known->second : all[std::string(key)];
}

}  // namespace

void KernelTotals::Add(const Call& call) {
  Calls& calls = At(At(kernels_, call.kernel), call.shape);
  calls.seconds += call.seconds, calls.flops += call.flops, calls.bytes += call.bytes;
  if (!call.continues) ++calls.count;
  if (!expected_.empty()) return;
  if (call.continues && !calls.each.empty())
    calls.each.back() += call.seconds;
  else
    calls.each.push_back(call.seconds);
}

void KernelTotals::WriteShape(std::string_view kernel, const std::string& shape, const Calls& calls, double steps,
                              report::KernelTotal& out) const {
  const auto expected = expected_.find({kernel, shape});
  if (!expected_.empty() && expected == expected_.end()) return;
  report::KernelShape& row = *out.add_shapes();
  row.set_shape(shape);
  row.set_count(static_cast<double>(calls.count) / steps), row.set_seconds(calls.seconds / steps);
  if (expected_.empty()) {
    row.set_source(report::MEASURED);
    row.set_flops(calls.flops / steps), row.set_bytes(static_cast<double>(calls.bytes) / steps);
    row.set_low(Percentile(calls.each, 0.1) * row.count()), row.set_high(Percentile(calls.each, 0.9) * row.count());
    return;
  }
  // Calls may have taken longer than their estimates, beside communication: the interval is of the same shares.
  const Trace::Expected& of = expected->second;
  const double scale = of.seconds > 0 ? row.seconds() / of.seconds : 0;
  row.set_source(Named(of.source));
  row.set_low(scale * of.low), row.set_high(scale * of.high);
  const double calls_of_one = row.count() / static_cast<double>(of.calls);
  row.set_flops(of.flops * calls_of_one), row.set_bytes(static_cast<double>(of.bytes) * calls_of_one);
}

void KernelTotals::WriteTo(int64_t steps, report::RankRecord& record) const {
  const auto in_steps = static_cast<double>(steps);
  for (const auto& [kernel, shapes] : kernels_) {
    report::KernelTotal& out = *record.add_kernels();
    Calls all;
    for (const auto& [shape, calls] : shapes) {
      all.count += calls.count, all.seconds += calls.seconds;
      WriteShape(kernel, shape, calls, in_steps, out);
    }
    out.set_kernel(kernel);
    out.set_count(std::llround(static_cast<double>(all.count) / in_steps));
    out.set_seconds(all.seconds / in_steps);
    std::stable_sort(
        out.mutable_shapes()->begin(), out.mutable_shapes()->end(),
        [](const report::KernelShape& a, const report::KernelShape& b) { return a.seconds() > b.seconds(); });
  }
}

}  // namespace twofold
