#include "core/data/slice_dataset.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

class Slice : public Dataset {
 public:
  Slice(std::shared_ptr<const Dataset> whole, int64_t first, int64_t count)
      : whole_(std::move(whole)), first_(first), count_(count) {
    TWOFOLD_CHECK_GE(first, 0);
    TWOFOLD_CHECK_GE(count, 1);
    TWOFOLD_CHECK_LE(first + count, whole_->size());
  }
  int64_t size() const override { return count_; }
  SampleType input() const override { return whole_->input(); }
  SampleType target() const override { return whole_->target(); }
  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    TWOFOLD_CHECK_LT(index, count_);
    whole_->Read(first_ + index, input, target);
  }
  std::string Describe() const override {
    return StrCat("samples ", first_, " to ", first_ + count_ - 1, " of ", whole_->Describe());
  }

 private:
  const std::shared_ptr<const Dataset> whole_;
  const int64_t first_, count_;
};

}  // namespace

std::unique_ptr<Dataset> MakeSlice(std::shared_ptr<const Dataset> whole, int64_t first, int64_t count) {
  return std::make_unique<Slice>(std::move(whole), first, count);
}

}  // namespace twofold
