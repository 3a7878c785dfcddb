#include "strategies/model_parallel/slices.h"

#include <map>
#include <string>

#include "core/base/check.h"

namespace twofold {

void ForSliceRanges(ParameterLayout& layout, absl::FunctionRef<void(const SliceRange&)> visit) {
  std::map<std::string, const nn::Parameter*> parameters;
  for (const nn::Parameter* p : layout.Parameters()) parameters[p->name()] = p;
  for (const optim::Slice& slice : layout.Slices()) {
    const auto part = [&](const std::string& name, int64_t first, int64_t offset, int64_t count) {
      const auto found = parameters.find(name);
      TWOFOLD_CHECK(found != parameters.end(), name + " is not a parameter of the layout's model");
      const nn::Parameter& p = *found->second;
      if (count < 0) count = p.numel();
      p.ForRanges(first, count, [&](const nn::Parameter::Run& run) {
        visit({slice, offset + run.local - first, p, run});
      });
    };
    // A slice with neither parts nor a parameter of its name is a shard of only padding.
    if (slice.parts.empty() && parameters.contains(slice.name)) part(slice.name, 0, 0, -1);
    for (const optim::SlicePart& p : slice.parts) part(p.parameter, p.first, p.offset, p.count);
  }
}

}  // namespace twofold
