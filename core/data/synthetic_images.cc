#include "core/data/synthetic_images.h"

#include <cstring>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int64_t kPeriod = 8, kTexture = kPeriod * kPeriod;
constexpr float kSqrt3 = 1.7320508f;

// Uniform with mean 0 and variance 1.
float Uniform(uint32_t lane) { return (2.0f * ToUniform(lane) - 1.0f) * kSqrt3; }

class SyntheticImages : public Dataset {
 public:
  explicit SyntheticImages(const SyntheticImageOptions& options)
      : options_(options),
        sample_key_(MakeKey(options.seed, "synthetic image samples")),
        noise_key_(MakeKey(options.seed, "synthetic image noise")),
        textures_(static_cast<size_t>(options.classes * kTexture * options.channels)) {
    for (int64_t c = 0; c < options.classes; ++c) {
      for (int64_t channel = 0; channel < options.channels; ++channel) MakeTexture(c, channel);
    }
  }

  int64_t size() const override { return options_.samples; }
  SampleType input() const override { return {Shape{options_.height, options_.width, options_.channels}, DType::kF32}; }
  SampleType target() const override { return {Shape{}, options_.classes <= 256 ? DType::kU8 : DType::kI32}; }

  void Read(int64_t index, std::span<std::byte> input_bytes, std::span<std::byte> target_bytes) const override {
    TWOFOLD_CHECK_GE(index, 0);
    TWOFOLD_CHECK_LT(index, size());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(input_bytes.size()), input().bytes());
    TWOFOLD_CHECK_EQ(static_cast<int64_t>(target_bytes.size()), target().bytes());
    const std::array<uint32_t, 4> drawn = Philox(sample_key_, static_cast<uint64_t>(index));
    const auto label = static_cast<int32_t>(drawn[0] % static_cast<uint32_t>(options_.classes));
    std::vector<float> pixels(static_cast<size_t>(input().shape.numel()));
    FillNoise(index, pixels);
    const int64_t row = drawn[1] % kPeriod, column = drawn[2] % kPeriod;
    AddTexture(label, row, column, drawn[3] % 2 == 0 ? 1.0f : -1.0f, pixels);
    std::memcpy(input_bytes.data(), pixels.data(), input_bytes.size());
    const auto small = static_cast<uint8_t>(label);
    std::memcpy(target_bytes.data(), target_bytes.size() == 1 ? static_cast<const void*>(&small) : &label,
                target_bytes.size());
  }

  std::string Describe() const override {
    return StrCat("synthetic: ", options_.samples, " images of ", options_.height, " x ", options_.width, " x ",
                  options_.channels, ", ", options_.classes, " classes, seed ", options_.seed);
  }

 private:
  float& Texture(int64_t label, int64_t place, int64_t channel) {
    return textures_[static_cast<size_t>((label * kTexture + place) * options_.channels + channel)];
  }

  // +1 and -1 in equal numbers, shuffled (Durstenfeld 1964).
  void MakeTexture(int64_t label, int64_t channel) {
    const PhiloxKey key = MakeKey(options_.seed, "synthetic image textures");
    const auto stream = static_cast<uint64_t>((label * options_.channels + channel) * kTexture);
    for (int64_t i = 0; i < kTexture; ++i) Texture(label, i, channel) = i % 2 == 0 ? 1.0f : -1.0f;
    for (int64_t i = kTexture - 1; i > 0; --i) {
      const auto other =
          static_cast<int64_t>(Philox(key, stream + static_cast<uint64_t>(i))[0] % static_cast<uint64_t>(i + 1));
      std::swap(Texture(label, i, channel), Texture(label, other, channel));
    }
  }

  void FillNoise(int64_t index, std::span<float> pixels) const {
    const uint64_t blocks = (pixels.size() + 3) / 4, first = static_cast<uint64_t>(index) * blocks;
    for (uint64_t b = 0; b < blocks; ++b) {
      const std::array<uint32_t, 4> lanes = Philox(noise_key_, first + b);
      for (size_t i = 0; i < 4 && 4 * b + i < pixels.size(); ++i) pixels[4 * b + i] = Uniform(lanes[i]);
    }
  }

  void AddTexture(int64_t label, int64_t row, int64_t column, float sign, std::span<float> pixels) const {
    const float* texture = textures_.data() + label * kTexture * options_.channels;
    float* to = pixels.data();
    for (int64_t r = 0; r < options_.height; ++r) {
      for (int64_t c = 0; c < options_.width; ++c, to += options_.channels) {
        const int64_t place = (r + row) % kPeriod * kPeriod + (c + column) % kPeriod;
        for (int64_t channel = 0; channel < options_.channels; ++channel)
          to[channel] += sign * texture[place * options_.channels + channel];
      }
    }
  }

  const SyntheticImageOptions options_;
  const PhiloxKey sample_key_, noise_key_;
  std::vector<float> textures_;  // [classes, 8, 8, channels]
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticImages(const SyntheticImageOptions& options) {
  struct Least {
    std::string_view what;
    int64_t value, least;
  };
  for (const Least& l :
       {Least{"samples", options.samples, 1}, Least{"height", options.height, 1}, Least{"width", options.width, 1},
        Least{"channels", options.channels, 1}, Least{"classes", options.classes, 2}}) {
    if (l.value < l.least) {
      return InvalidArgument("synthetic images: ", l.what, " must be at least ", l.least, " (got ", l.value, ")");
    }
  }
  return std::make_unique<SyntheticImages>(options);
}

}  // namespace twofold
