#include "strategies/data_parallel/wrapping.h"

#include <algorithm>
#include <set>
#include <utility>

namespace twofold {
namespace {

using Wrapper = absl::FunctionRef<std::unique_ptr<nn::Module>(std::unique_ptr<nn::Module>)>;

class Walk {
 public:
  Walk(const nn::Module& root, const WrapPolicy& policy, Wrapper wrap)
      : policy_(policy), wrap_(wrap), shared_(root.SharedParameters()) {}

  // Wraps modules below `module`. Returns how many of its parameters no unit below it holds.
  int64_t Below(nn::Module& module) {
    int64_t left = module.ParameterCount();
    for (size_t i = 0; i < module.children().size(); ++i) {
      nn::Module& child = *module.children()[i].module;
      const int64_t all = child.ParameterCount();
      int64_t open = Below(child);
      const bool wrapped = child.path() == module.path();  // `module` is a wrapper of `child` and is handled instead
      if (!wrapped && open > 0 && policy_(child, open) && StandsAlone(child)) {
        module.WrapChild(i, wrap_);
        open = 0;
      }
      left -= all - open;
    }
    return left;
  }

 private:
  // No parameter of `module` is used outside it, and it uses no parameter of others.
  bool StandsAlone(const nn::Module& module) const {
    const std::vector<nn::Parameter*> own = module.Parameters(), uses = module.SharedParameters();
    const std::set<nn::Parameter*> mine(own.begin(), own.end());
    const auto is_mine = [&](nn::Parameter* p) { return mine.contains(p); };
    return std::all_of(uses.begin(), uses.end(), is_mine) &&
           std::count_if(shared_.begin(), shared_.end(), is_mine) == static_cast<std::ptrdiff_t>(uses.size());
  }

  const WrapPolicy& policy_;
  const Wrapper wrap_;
  const std::vector<nn::Parameter*> shared_;
};

}  // namespace

WrapPolicy WrapByKind(std::string kind) {
  return [kind = std::move(kind)](const nn::Module& m, int64_t) { return m.kind() == kind; };
}

WrapPolicy WrapByParameterCount(int64_t least) {
  return [least](const nn::Module&, int64_t parameters) { return parameters >= least; };
}

WrapPolicy WrapByPath(std::vector<std::string> paths) {
  return [paths = std::set<std::string>(paths.begin(), paths.end())](const nn::Module& m, int64_t) {
    return paths.contains(m.path());
  };
}

WrapPolicy WrapEither(WrapPolicy a, WrapPolicy b) {
  return [a = std::move(a), b = std::move(b)](const nn::Module& m, int64_t parameters) {
    return (a && a(m, parameters)) || (b && b(m, parameters));
  };
}

void WrapUnits(nn::Module& root, const WrapPolicy& policy, Wrapper wrap) { Walk(root, policy, wrap).Below(root); }

}  // namespace twofold
