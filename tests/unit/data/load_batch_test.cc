#include "core/data/load_batch.h"

#include <gtest/gtest.h>

#include "core/data/synthetic_dataset.h"
#include "core/data/text_dataset.h"
#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace load_batch_test {

// The least of a device that uploads: memory, with or without data behind it.
class UploadDevice : public Device {
 public:
  explicit UploadDevice(MemorySource& source) : allocator_(source, 0) {}
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  int threads() const override { return 1; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return allocator_; }
  Stream& compute() override { throw std::logic_error("loading a batch runs no operation"); }
  std::unique_ptr<Stream> NewStream(std::string_view) override { return nullptr; }
  void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) override {
    ++uploads;
    if (dst.has_data()) fill({static_cast<std::byte*>(dst.raw()), static_cast<size_t>(dst.bytes().value())});
  }
  void Download(const Tensor&, std::span<std::byte>) override {}
  double Item(const Tensor&, StandIn stand_in) override { return stand_in.value; }
  int uploads = 0;

 protected:
  void Run(Stream&, const ops::Op&, Tensor) override { throw std::logic_error("loading a batch runs no operation"); }
  void Copy(Stream&, Tensor, Tensor) override { throw std::logic_error("loading a batch transfers nothing"); }

 private:
  CachingAllocator allocator_;
};

class LoadBatchTest : public ScratchFiles {};

TEST_F(LoadBatchTest, StacksSamplesInTheGivenOrder) {
  MallocSource source;
  UploadDevice device(source);
  const auto dataset = *MakeTextDataset(Write("text", "abcdefghijkl"), 3);
  const std::vector<int64_t> indices = {2, 0};
  const Batch batch = LoadBatch(device, *dataset, indices);
  EXPECT_EQ(batch.inputs.shape(), (Shape{2, 3}));
  EXPECT_EQ(batch.targets.shape(), (Shape{2, 3}));
  EXPECT_EQ(batch.inputs.dtype(), DType::kU8);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(batch.inputs.data<uint8_t>()), 6), "ghiabc");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(batch.targets.data<uint8_t>()), 6), "hijbcd");
}

TEST_F(LoadBatchTest, ScalarTargetsMakeAVector) {
  MallocSource source;
  UploadDevice device(source);
  const auto dataset = *MakeSyntheticDataset({.samples = 10, .inputs = 4, .classes = 3});
  const std::vector<int64_t> indices = {7, 7, 1};
  const Batch batch = LoadBatch(device, *dataset, indices);
  EXPECT_EQ(batch.inputs.shape(), (Shape{3, 4}));
  EXPECT_EQ(batch.targets.shape(), (Shape{3}));
  std::vector<float> features(4);
  std::byte label;
  dataset->Read(1, std::as_writable_bytes(std::span(features)), std::span(&label, 1));
  EXPECT_EQ(std::vector<float>(batch.inputs.data<float>() + 8, batch.inputs.data<float>() + 12), features);
  EXPECT_EQ(batch.targets.data<uint8_t>()[2], std::to_integer<uint8_t>(label));
  EXPECT_EQ(batch.targets.data<uint8_t>()[0], batch.targets.data<uint8_t>()[1]);
}

// Memory is the same with data and without, which is what makes a symbolic run's prediction exact.
TEST_F(LoadBatchTest, ReadsNothingWhereNoDataExistsAndTakesTheSameMemory) {
  MallocSource real_source;
  VirtualSource virtual_source;
  UploadDevice real(real_source), symbolic(virtual_source);
  const auto dataset = *MakeSyntheticDataset({.samples = 10, .inputs = 300, .classes = 3});
  const std::vector<int64_t> indices = {0, 5, 9};
  const Batch a = LoadBatch(real, *dataset, indices), b = LoadBatch(symbolic, *dataset, indices);
  EXPECT_FALSE(b.inputs.has_data());
  EXPECT_EQ(symbolic.uploads, 2);
  EXPECT_EQ(real.allocator().ledger().stats().live, symbolic.allocator().ledger().stats().live);
  EXPECT_EQ(real.allocator().ledger().stats().live_by_category[static_cast<size_t>(Category::kActivations)],
            Bytes(4096 + 512));  // 3 * 300 * 4 bytes and 3 bytes, each rounded up to 512
}

}  // namespace load_batch_test
}  // namespace twofold
