// Validates a spec as a whole, part by part (validate.h). The upper bounds are far beyond real sizes; they prevent any
// product of sizes from overflowing 64 bits.
#include "experiments/program/spec/validate.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The parser accepts infinities and NaN, but no field allows them.
void CheckFinite(const Message& m, const std::string& path, Problems& problems) {
  const google::protobuf::Reflection* r = m.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r->ListFields(m, &fields);
  for (const FieldDescriptor* f : fields) {
    if (f->is_repeated()) continue;  // repeated numbers are always integers
    const std::string here = path.empty() ? f->name() : StrCat(path, ".", f->name());
    if (f->message_type() != nullptr) CheckFinite(r->GetMessage(m, f), here, problems);
    if (f->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) continue;
    const double value = r->GetDouble(m, f);
    if (!std::isfinite(value)) problems.Add(here, NumberText(value), " is not finite; use a finite number");
  }
}

// The name becomes part of a folder's name, followed by "-<fabric>".
void CheckName(const spec::Spec& spec, Problems& problems) {
  const std::string& name = spec.name();
  const bool odd = std::any_of(name.begin(), name.end(), [](char c) { return c == '/' || absl::ascii_iscntrl(c); });
  if (!name.empty() && name.size() <= 200 && !odd && name[0] != '.' && name[0] != '-') return;
  problems.Add("name", "\"", name, "\" cannot name a folder; use 1 to 200 characters without / and ",
               "control characters, not starting with . or -");
}

// Limits on the memory that a rank may reserve.
void CheckMemory(const spec::Memory& memory, Problems& problems) {
  constexpr double kMost = 1 << 30;  // a pebibyte
  const auto check = [&problems](std::string_view path, double mib, std::string_view otherwise) {
    if (problems.AtLeast(path, mib, 0) && mib > kMost) {
      problems.Add(path, NumberText(mib), " is out of range; use at most ", NumberText(kMost), ", or 0 for ",
                   otherwise);
    }
  };
  check("memory.budget_mib", memory.budget_mib(), "what the device has");
  check("memory.host_budget_mib", memory.host_budget_mib(), "what the host has");
}

// What only predictions have.
void CheckPredictedOnly(const spec::Spec& spec, Problems& problems) {
  const bool simulated = spec.fabric().has_simulated();
  if (spec.memory().assume_fits() && !simulated) {
    problems.Add("memory.assume_fits", "true is only for fabric simulated, but fabric is ", FabricName(spec),
                 ": real memory cannot be exceeded; leave it out");
  }
  if (spec.framework() == spec::TWOFOLD) return;
  const std::string& name = spec::Framework_Name(spec.framework());
  if (!simulated) {
    problems.Add("framework", name, " can only be predicted, but fabric is ", FabricName(spec),
                 ", which runs this program; use --fabric=simulated, or TWOFOLD");
  }
  if (spec.device() == spec::EMULATED) {
    problems.Add("framework", name, " is predicted on the cluster's own device; leave device: EMULATED out");
  }
  if (spec.fabric().simulated().data() == spec::Simulated::REAL) {
    problems.Add("framework", name, " computes nothing; use fabric.simulated.data: SYMBOLIC");
  }
}

// What a rank polls for, or loses, is not in its graph.
void CheckExecutionGraph(const spec::Spec& spec, const char* field, Problems& problems) {
  if (!spec.fabric().has_simulated())
    problems.Add(field, "only simulated ranks keep one; use --fabric=simulated, or leave it out");
  if (spec.train().has_elastic() || spec.train().has_async_sgd())
    problems.Add(field, spec.train().has_elastic() ? "train.elastic" : "train.async_sgd",
                 " has ranks that come, go or do not wait for one another; leave one of them out");
  if (!spec.fabric().simulated().faults().empty())
    problems.Add(field, "fabric.simulated.faults are not in it; leave one of them out");
}

void CheckGraphs(const spec::Spec& spec, Problems& problems) {
  if (spec.trace().execution_graph()) CheckExecutionGraph(spec, "trace.execution_graph", problems);
  if (!spec.trace().goal()) return;
  CheckExecutionGraph(spec, "trace.goal", problems);
  if (spec.fabric().has_simulated() && spec.fabric().simulated().folding() != spec::Simulated::OFF)
    problems.Add("trace.goal",
                 "every message has two ends, so no rank can stand for others; add "
                 "fabric.simulated.folding: OFF, or leave it out");
}

absl::Status CheckAll(const spec::Spec& spec, Problems& problems) {
  CheckFinite(spec, "", problems);
  if (absl::Status status = problems.status(); !status.ok()) return status;
  CheckName(spec, problems);
  CheckModel(spec.model(), problems);
  CheckData(spec, problems);
  CheckTrain(spec, problems);
  CheckParallel(spec, problems);
  CheckZeroPlusPlus(spec, problems);
  CheckCompression(spec, problems);
  CheckOneBitAdam(spec, problems);
  CheckLocalUpdate(spec, problems);
  CheckElastic(spec, problems);
  CheckAsyncSgd(spec, problems);
  CheckSharding(spec, problems);
  CheckFabric(spec, problems);
  CheckEmulated(spec, problems);
  CheckCuda(spec, problems);
  CheckMemory(spec.memory(), problems);
  CheckPredictedOnly(spec, problems);
  problems.Whole("trace.last_steps", spec.trace().last_steps(), 1, int64_t{1} << 31);
  problems.Whole("trace.ranks", spec.trace().ranks(), 1, int64_t{1} << 31);
  problems.Above("trace.goal_mib", spec.trace().goal_mib(), 0);
  if (!problems.status().ok()) return problems.status();
  CheckGraphs(spec, problems);
  CheckMessages(spec, problems);
  CheckUnits(spec, problems);
  return problems.status();
}

}  // namespace

absl::Status Validate(const spec::Spec& spec, const std::string& file) {
  Problems problems(file);
  return CheckAll(spec, problems);
}

BoundsByPath BoundsOf(const spec::Spec& spec) {
  BoundsByPath ranges;
  Problems problems("", &ranges);
  CheckAll(spec, problems).IgnoreError();  // the ranges are wanted, whatever is found
  return ranges;
}

}  // namespace twofold
