#include "strategies/context_parallel/sequence_shard.h"

#include <cstring>
#include <vector>

#include "core/base/strings.h"

namespace twofold {
namespace {

class SequenceShard final : public Dataset {
 public:
  SequenceShard(const Dataset& whole, const ZigZag& place) : whole_(whole), place_(place) {
    for (const SampleType& part : {whole.input(), whole.target()}) {
      TWOFOLD_CHECK_EQ(part.shape.rank(), 1);
      TWOFOLD_CHECK_EQ(part.shape[0] % (2 * place.ranks), 0);
    }
  }
  int64_t size() const override { return whole_.size(); }
  SampleType input() const override { return PartOf(whole_.input()); }
  SampleType target() const override { return PartOf(whole_.target()); }

  void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
    std::vector<std::byte> inputs(Size(whole_.input())), targets(Size(whole_.target()));
    whole_.Read(index, inputs, targets);
    TakeChunks(inputs, input);
    TakeChunks(targets, target);
  }
  std::string Describe() const override {
    const std::array<int64_t, 2> chunks = place_.Chunks();
    return StrCat("chunks ", chunks[0], " and ", chunks[1], " of ", 2 * place_.ranks, " of ", whole_.Describe());
  }

 private:
  static size_t Size(const SampleType& type) { return static_cast<size_t>(type.bytes()); }
  SampleType PartOf(SampleType type) const {
    type.shape = Shape{type.shape[0] / place_.ranks};
    return type;
  }
  void TakeChunks(std::span<const std::byte> sample, std::span<std::byte> part) const {
    const size_t chunk = part.size() / 2;
    for (size_t i = 0; i < 2; ++i) {
      std::memcpy(part.data() + i * chunk, sample.data() + static_cast<size_t>(place_.Chunks()[i]) * chunk, chunk);
    }
  }

  const Dataset& whole_;
  const ZigZag place_;
};

}  // namespace

std::unique_ptr<Dataset> MakeSequenceShard(const Dataset& whole, const ZigZag& place) {
  return std::make_unique<SequenceShard>(whole, place);
}

}  // namespace twofold
