// The calls of a rank's kernels, summed up by kernel and shape.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/trace.h"

namespace twofold {

namespace report {
class KernelTotal;
class RankRecord;
}  // namespace report

class KernelTotals {
 public:
  // `expected`: of predicted calls, where their times come from; it must outlive this. Empty: the calls are measured.
  explicit KernelTotals(const Trace::AllExpected& expected) : expected_(expected) {}

  struct Call {
    std::string_view kernel, shape;
    double seconds = 0, flops = 0;
    int64_t bytes = 0;
    bool continues = false;  // the rest of the call that was added before it
  };
  void Add(const Call& call);
  // Means per step. Kernels by name; shapes of a kernel by descending time, without those whose time no model gave.
  void WriteTo(int64_t steps, report::RankRecord& record) const;

 private:
  struct Calls {
    int64_t count = 0, bytes = 0;
    double seconds = 0, flops = 0;
    std::vector<double> each = {};  // seconds of measured calls
  };
  void WriteShape(std::string_view kernel, const std::string& shape, const Calls& calls, double steps,
                  report::KernelTotal& out) const;

  const Trace::AllExpected& expected_;
  std::map<std::string, std::map<std::string, Calls, std::less<>>, std::less<>> kernels_;
};

}  // namespace twofold
