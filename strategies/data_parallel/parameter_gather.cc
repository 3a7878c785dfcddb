#include "strategies/data_parallel/parameter_gather.h"

#include "strategies/data_parallel/sharded_units.h"

namespace twofold {
namespace {

class PlainGather final : public ParameterGather {
 public:
  explicit PlainGather(ProcessGroup& group) : group_(group) {}
  Work Start(nn::Context&, const Tensor& shard, Tensor& whole) override { return group_.AllGather(whole, shard); }

 private:
  ProcessGroup& group_;
};

}  // namespace

MakeGather PlainGathers() {
  return [](nn::Context&, const Sharing& sharing, const Tensor&) {
    return std::make_unique<PlainGather>(*sharing.gather);
  };
}

}  // namespace twofold
