#include "core/data/synthetic_dataset.h"

#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Elements [first, first + out.size()) of the key's uniform sequence, scaled to mean 0 and variance 1.
void FillUniform(PhiloxKey key, uint64_t first, std::span<float> out) {
  constexpr float kSqrt3 = 1.7320508f;
  std::array<uint32_t, 4> lanes{};
  for (size_t j = 0; j < out.size(); ++j) {
    const uint64_t index = first + j;
    if (j == 0 || index % 4 == 0) lanes = Philox(key, index / 4);
    out[j] = (2.0f * ToUniform(lanes[index % 4]) - 1.0f) * kSqrt3;
  }
}

class SyntheticDataset : public Dataset {
 public:
  explicit SyntheticDataset(const SyntheticOptions& options)
      : options_(options),
        feature_key_(MakeKey(options.seed, "synthetic features")),
        map_(static_cast<size_t>(options.classes * options.inputs)) {
    FillUniform(MakeKey(options.seed, "synthetic map"), 0, map_);
  }

  int64_t size() const override { return options_.samples; }
  SampleType input() const override { return {Shape{options_.inputs}, DType::kF32}; }
  SampleType target() const override { return {Shape{}, options_.classes <= 256 ? DType::kU8 : DType::kI32}; }

  void Read(int64_t index, std::span<std::byte> input_bytes, std::span<std::byte> target_bytes) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(input_bytes.size()), input().bytes());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(target_bytes.size()), target().bytes());
    std::vector<float> features(static_cast<size_t>(options_.inputs));
    FillUniform(feature_key_, static_cast<uint64_t>(index) * static_cast<uint64_t>(options_.inputs), features);
    std::memcpy(input_bytes.data(), features.data(), input_bytes.size());
    const int32_t label = LabelOf(features);
    const auto small = static_cast<uint8_t>(label);
    std::memcpy(target_bytes.data(), target_bytes.size() == 1 ? static_cast<const void*>(&small) : &label,
                target_bytes.size());
  }

  std::string Describe() const override {
    return StrCat("synthetic: ", options_.samples, " samples of ", options_.inputs, " features, ", options_.classes,
                  " classes, seed ", options_.seed);
  }

 private:
  // The class with the largest product; among equals the first.
  int32_t LabelOf(std::span<const float> features) const {
    int64_t best = 0;
    double best_score = 0;
    for (int64_t c = 0; c < options_.classes; ++c) {
      const float* row = map_.data() + c * options_.inputs;
      double score = 0;
      for (size_t j = 0; j < features.size(); ++j) score += double{row[j]} * double{features[j]};
      if (c == 0 || score > best_score) best = c, best_score = score;
    }
    return static_cast<int32_t>(best);
  }

  const SyntheticOptions options_;
  const PhiloxKey feature_key_;
  std::vector<float> map_;  // [classes, inputs]
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticDataset(const SyntheticOptions& options) {
  const auto refuse = [](std::string_view what, int64_t value, int64_t least) {
    return InvalidArgument("synthetic data: ", what, " must be at least ", least, " (got ", value, ")");
  };
  if (options.samples < 1) return refuse("samples", options.samples, 1);
  if (options.inputs < 1) return refuse("inputs", options.inputs, 1);
  if (options.classes < 2) return refuse("classes", options.classes, 2);
  return std::make_unique<SyntheticDataset>(options);
}

}  // namespace twofold
