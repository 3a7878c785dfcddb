#include "sim/cost/profile_cost_model.h"

#include "gtest/gtest.h"
#include "sim/cost/read_profile.h"

namespace twofold {
namespace profile_cost_model_test {

// `rate` is work (flops or bytes) per second.
void AddKernel(profile::Profile& profile, const char* name, const char* dtype, int64_t dim, int dims, double work,
               double rate) {
  profile::Kernel& kernel = *profile.add_kernels();
  kernel.set_name(name), kernel.set_dtype(dtype);
  profile::Point& p = *kernel.add_points();
  if (dims == 2) p.add_dims(1);
  for (int i = dims == 2 ? 1 : 0; i < dims; ++i) p.add_dims(dim);
  p.set_flops(work), p.set_bytes(work), p.set_seconds(work / rate);
  p.set_low(0.5 * p.seconds()), p.set_high(2 * p.seconds());
}

profile::Profile Machine() {
  profile::Profile profile;
  profile.set_name("test"), profile.set_source("made up");
  profile.set_peak_flops_per_second(1e10);
  AddKernel(profile, "matmul_nn", "f32", 64, 3, 2.0 * 64 * 64 * 64, 1e10);
  AddKernel(profile, "add", "f32", 1024, 2, 12 * 1024, 1e9);
  AddKernel(profile, "scale", "f32", 1024, 2, 8 * 1024, 2e9);
  AddKernel(profile, "cast", "f32", 1024, 2, 6 * 1024, 4e9);
  return profile;
}

struct CostModelTest : testing::Test {
  Tensor New(Shape shape, DType dtype = DType::kF32) {
    return Allocate(allocator, std::move(shape), dtype, Category::kOther);
  }
  ops::Op Product(int64_t m, bool transpose_b = false, DType dtype = DType::kF32) {
    return ops::MatMul{
        .a = New({m, 64}, dtype), .b = New({64, 64}, dtype), .out = New({m, 64}, dtype), .transpose_b = transpose_b};
  }
  ops::Op Add(int64_t n, DType dtype) { return ops::Add{New({n}, dtype), New({n}, dtype), New({n}, dtype)}; }

  MallocSource source;
  CachingAllocator allocator{source, 0};
  ProfileCostModel model{Machine()};
};

TEST_F(CostModelTest, MeasuredKernelIsNotExtrapolated) {
  const Estimate e = model.Time(Product(64));
  EXPECT_NEAR(e.seconds.value(), 2.0 * 64 * 64 * 64 / 1e10, 1e-15);
  EXPECT_NEAR(e.low.value(), 0.5 * e.seconds.value(), 1e-15);
  EXPECT_NEAR(e.high.value(), 2 * e.seconds.value(), 1e-15);
  EXPECT_FALSE(e.extrapolated);
}

// Without it, they take the time of bf16's.
TEST_F(CostModelTest, ProductsInFp8AreThoseOfTheirScaling) {
  profile::Profile machine = Machine();
  const double flops = 2.0 * 64 * 64 * 64;
  AddKernel(machine, "matmul_fp8_nt", "u8", 64, 3, flops, 2e10);
  AddKernel(machine, "matmul_fp8_block_nt", "u8", 64, 3, flops, 5e9);
  ProfileCostModel measured(machine);
  const auto product = [&](ops::Fp8Blocks a, ops::Fp8Blocks b) -> ops::Op {
    const auto scaling = [&](ops::Fp8Blocks blocks) {
      return ops::Fp8Scaling{New(ops::Fp8Scales(blocks, 64, 64)), ops::Fp8Format::kE4M3, blocks};
    };
    return ops::MatMul{.a = New({64, 64}, DType::kU8),
                       .b = New({64, 64}, DType::kU8),
                       .out = New({64, 64}),
                       .transpose_b = true,
                       .a_scaling = scaling(a),
                       .b_scaling = scaling(b)};
  };
  const ops::Op current = product(ops::Fp8Blocks::kTensor, ops::Fp8Blocks::kTensor),
                block = product(ops::Fp8Blocks::kRow, ops::Fp8Blocks::kSquare);
  EXPECT_NEAR(measured.Time(current).seconds.value(), flops / 2e10, 1e-12);
  EXPECT_NEAR(measured.Time(block).seconds.value(), flops / 5e9, 1e-12);
  for (const ops::Op& op : {current, block}) {
    EXPECT_EQ(measured.Time(op).source, Source::kCalibrated);
    EXPECT_EQ(model.Time(op).source, Source::kExtrapolated);
  }
}

TEST_F(CostModelTest, EstimatesSayWhereTheyComeFrom) {
  profile::Profile machine = Machine();
  profile::Point& larger = *machine.mutable_kernels(1)->add_points();  // of add
  larger.add_dims(1), larger.add_dims(4096), larger.set_bytes(12 * 4096), larger.set_seconds(6e-5);
  ProfileCostModel two(machine);
  const auto source = [&](const ops::Op& op) { return two.Time(op).source; };
  EXPECT_EQ(source(Add(1024, DType::kF32)), Source::kCalibrated);
  EXPECT_EQ(source(Add(4096, DType::kF32)), Source::kCalibrated);
  EXPECT_EQ(source(Add(2048, DType::kF32)), Source::kTable);
  EXPECT_EQ(source(Add(8192, DType::kF32)), Source::kExtrapolated);
  EXPECT_EQ(source(Add(1024, DType::kBF16)), Source::kExtrapolated) << "another type";
  EXPECT_EQ(source(Product(64, true)), Source::kExtrapolated) << "another product";
  EXPECT_EQ(source(ops::Fill{New({1024})}), Source::kExtrapolated) << "it was not measured";
  const Tensor wide = New({1024}), narrow = New({1024}, DType::kBF16);
  EXPECT_EQ(source(ops::Cast{wide, narrow}), Source::kCalibrated);
  EXPECT_EQ(source(ops::Cast{wide, wide}), Source::kTable) << "of a measured size, but it touches more bytes";
}

TEST_F(CostModelTest, OutsideTheMeasuredSizesItSaysSoAndWidensTheInterval) {
  const Estimate e = model.Time(Product(256));
  EXPECT_TRUE(e.extrapolated);
  EXPECT_NEAR(e.seconds.value(), 2.0 * 256 * 64 * 64 / 1e10, 1e-15);
  EXPECT_NEAR(e.high.value(), 2 * e.seconds.value() * ProfileCostModel::kExtrapolationSlack, 1e-15);
}

TEST_F(CostModelTest, ProductThatWasNotMeasuredTakesAnotherProductsRate) {
  const Estimate e = model.Time(Product(64, true));
  EXPECT_TRUE(e.extrapolated);
  EXPECT_NEAR(e.seconds.value(), model.Time(Product(64)).seconds.value(), 1e-15);
}

// A profile of before such products were measured has the two by themselves.
TEST_F(CostModelTest, ProductWithAGeluThatWasNotMeasuredIsAProductAndAGelu) {
  const Tensor x = New({64, 64}), y = New({64, 64}), aux = New({64, 64});
  const ops::MatMul plain{.a = x, .b = x, .out = aux};
  const ops::MatMul gelu{.a = x, .b = x, .out = y, .epilogue = ops::MatMul::kGelu, .aux = aux};
  const ops::MatMul slope{.a = x, .b = x, .out = y, .epilogue = ops::MatMul::kGeluSlope, .aux = aux};
  const auto sum = [](const Estimate& a, const Estimate& b) { return (a.seconds + b.seconds).value(); };
  const Estimate product = model.Time(plain),
                 forward = model.Time(ops::ActivationForward{ops::ActivationForward::kGelu, aux, y}),
                 backward = model.Time(ops::ActivationBackward{ops::ActivationForward::kGelu, aux, y, y});
  EXPECT_NEAR(model.Time(gelu).seconds.value(), sum(product, forward), 1e-15);
  EXPECT_NEAR(model.Time(slope).seconds.value(), sum(product, backward), 1e-15);
  EXPECT_TRUE(model.Time(gelu).extrapolated) << "as the GELU is";
  profile::Profile later = Machine();
  AddKernel(later, "matmul_gelu", "f32", 64, 3, 2.0 * 64 * 64 * 64, 5e9);
  ProfileCostModel measured(later);
  EXPECT_NEAR(measured.Time(gelu).seconds.value(), 2.0 * 64 * 64 * 64 / 5e9, 1e-15);
  EXPECT_NEAR(measured.Time(Product(64, true)).seconds.value(), product.seconds.value(), 1e-15)
      << "other products are plain ones";
}

TEST_F(CostModelTest, OtherElementTypeIsScaledByItsBytes) {
  const Estimate wide = model.Time(Add(4096, DType::kF32)), narrow = model.Time(Add(4096, DType::kBF16));
  EXPECT_TRUE(narrow.extrapolated);
  EXPECT_NEAR(narrow.seconds.value(), wide.seconds.value() / 2, 1e-15);
}

TEST_F(CostModelTest, UnknownKernelCostsItsBytesAtTheMedianStreamingRate) {
  const Estimate e = model.Time(ops::Fill{New({1 << 20})});
  EXPECT_TRUE(e.extrapolated);
  EXPECT_NEAR(e.seconds.value(), 4.0 * (1 << 20) / 2e9, 1e-12);  // rates are 1, 2 and 4 GB/s
}

TEST_F(CostModelTest, UnknownAttentionCostsItsFlopsAtThePeak) {
  const ops::AttentionForward op{.qkv = New({2, 128, 3 * 64}), .out = New({2, 128, 64}), .lse = New({2, 1, 128})};
  const Estimate e = model.Time(op);
  EXPECT_TRUE(e.extrapolated);
  EXPECT_NEAR(e.seconds.value(), ops::CostOf(op).flops.value() / 1e10, 1e-12);
}

TEST_F(CostModelTest, RemembersAnswersByAllThatTheyDependOn) {
  const Tensor wide = New({4096}), narrow = New({4096}, DType::kBF16);
  const double copy = model.Time(ops::Cast{wide, wide}).seconds.value();
  const double round = model.Time(ops::Cast{wide, narrow}).seconds.value();  // equal key, fewer bytes
  EXPECT_NEAR(round, copy * 6 / 8, 1e-15);
  EXPECT_EQ(model.Time(ops::Cast{wide, wide}).seconds.value(), copy);
}

TEST_F(CostModelTest, InTrainingAKernelTakesItsFactorAndOthersThatOfWholeJobs) {
  profile::Training training;
  training.set_ranks(2), training.set_factor(1.25), training.set_low(0.9), training.set_high(1.2);
  training.add_kernels()->set_kernel("add"), training.mutable_kernels(0)->set_factor(2);
  ProfileCostModel busy(Machine(), &training);
  for (const auto& [op, factor] : {std::pair(Add(1024, DType::kF32), 2.0), std::pair(Product(64), 1.25)}) {
    const Estimate alone = model.Time(op), e = busy.Time(op);
    EXPECT_NEAR(e.seconds.value(), factor * alone.seconds.value(), 1e-15);
    const bool in_jobs = factor == 2;  // their noise is in the jobs' own error
    EXPECT_NEAR(e.low.value(), in_jobs ? e.seconds.value() : factor * alone.low.value(), 1e-15);
    EXPECT_NEAR(e.high.value(), in_jobs ? e.seconds.value() : factor * alone.high.value(), 1e-15);
  }
  const Estimate beyond = busy.Time(Add(4096, DType::kF32));
  EXPECT_TRUE(beyond.extrapolated);
  EXPECT_NEAR(beyond.high.value(), ProfileCostModel::kExtrapolationSlack * beyond.seconds.value(), 1e-15);
  EXPECT_EQ(busy.common().low, 0.9);
  EXPECT_EQ(busy.common().high, 1.2);
  EXPECT_EQ(model.common().high, 1);
}

TEST_F(CostModelTest, InTrainingTheFactorFollowsTheTimeAlone) {
  const double of_1024 = model.Time(Add(1024, DType::kF32)).seconds.value();
  profile::Training training;
  training.set_ranks(1), training.set_factor(1), training.set_low(1), training.set_high(1);
  const auto add = [&](double factor, double alone) {
    profile::KernelFactor& f = *training.add_kernels();
    f.set_kernel("add"), f.set_factor(factor), f.set_alone_s(alone);
  };
  add(0.5, of_1024), add(0.9, of_1024 * 4);
  ProfileCostModel busy(Machine(), &training);
  const auto factor = [&](int64_t n) {
    return busy.Time(Add(n, DType::kF32)).seconds / model.Time(Add(n, DType::kF32)).seconds;
  };
  EXPECT_NEAR(factor(2048), 0.7, 1e-12) << "half-way, in the logarithm";
  EXPECT_NEAR(factor(128), 0.5, 1e-12) << "beyond the ends, that of the nearest";
  EXPECT_NEAR(factor(8192), 0.9, 1e-12);
}

TEST_F(CostModelTest, TrainingIsThatOfAsManyRanksOrTheNextFewer) {
  profile::Profile profile = Machine();
  EXPECT_EQ(TrainingFor(profile, 1), nullptr);
  for (const int ranks : {2, 4}) profile.add_training()->set_ranks(ranks);
  for (const auto& [asked, given] :
       {std::pair(1, 2), std::pair(2, 2), std::pair(3, 2), std::pair(4, 4), std::pair(64, 4)}) {
    EXPECT_EQ(TrainingFor(profile, asked)->ranks(), given) << asked;
  }
}

TEST_F(CostModelTest, DescribesItsProfile) { EXPECT_NE(model.Describe().find("made up"), std::string::npos); }

TEST_F(CostModelTest, AGpuHasItsProductsOfF32BothWaysAndSaysWhatLaunchesTake) {
  profile::Profile profile = Machine();
  AddKernel(profile, "matmul_nn", "tf32", 64, 3, 2.0 * 64 * 64 * 64, 8e10);
  profile.mutable_kernels(0)->set_launch_s(7e-6);
  profile::Gpu& gpu = *profile.mutable_gpu();
  gpu.set_memory_bytes(1), gpu.set_multiprocessors(4), gpu.mutable_launch()->set_seconds(3e-6),
      gpu.mutable_allocation()->set_seconds(1e-6);
  gpu.mutable_within()->set_bytes_per_second(1e12);
  ASSERT_TRUE(CheckProfile(profile, "made up").ok()) << CheckProfile(profile, "made up");
  ProfileCostModel plain(profile), tf32(profile, nullptr, true);
  EXPECT_NEAR(plain.Time(Product(64)).seconds.value(), 2.0 * 64 * 64 * 64 / 1e10, 1e-15);
  EXPECT_NEAR(tf32.Time(Product(64)).seconds.value(), 2.0 * 64 * 64 * 64 / 8e10, 1e-15);
  EXPECT_NEAR(tf32.Time(Add(1024, DType::kF32)).seconds.value(), plain.Time(Add(1024, DType::kF32)).seconds.value(),
              1e-15)
      << "no product";
  EXPECT_NEAR(plain.Time(Product(64)).launch->value(), 8e-6, 1e-15) << "its own, and a tensor";
  EXPECT_NEAR(plain.Time(Add(1024, DType::kF32)).launch->value(), 4e-6, 1e-15) << "any launch, and a tensor";
  profile.clear_gpu();
  EXPECT_FALSE(CheckProfile(profile, "made up").ok()) << "tf32 is a GPU's";
}

// A run lies between one that has the machine to itself and one on a machine as loaded as it was.
TEST(LoadAtCalibration, WidensTheIntervalByItsLaw) {
  profile::Profile profile = Machine();
  profile::Training training;
  training.set_ranks(2), training.set_factor(1), training.set_low(0.9), training.set_high(1.1);
  EXPECT_EQ(ProfileCostModel(profile, &training).common().high, 1.1);
  EXPECT_EQ(ProfileCostModel(profile).Describe().find("delayed the calibration"), std::string::npos);
  profile::Load& load = *profile.mutable_load();
  load.set_taken(0.5), load.set_kept(0.2), load.set_repeated(31);
  const Range range = ProfileCostModel(profile, &training).common();
  EXPECT_DOUBLE_EQ(range.low, 0.9 * 0.8);
  EXPECT_DOUBLE_EQ(range.high, 1.1 / 0.5);
  load.set_fixed_low(0.85), load.set_fixed_high(1.05);
  EXPECT_DOUBLE_EQ(ProfileCostModel(profile, &training).common().low, 0.85 * 0.8)
      << "the wider of the jobs' and the fixed kernel's";
  EXPECT_DOUBLE_EQ(ProfileCostModel(profile, &training).common().high, 1.1 / 0.5);
  EXPECT_DOUBLE_EQ(ProfileCostModel(profile).common().high, 1.05 / 0.5) << "without training jobs, too";
  EXPECT_NE(
      ProfileCostModel(profile).Describe().find(
          "other work delayed the calibration by up to 50 % of the time (20 % in the measurements that were kept; "
          "31 measurements were repeated), so intervals reach at least from 0.68 to 2.10"),
      std::string::npos)
      << ProfileCostModel(profile).Describe();
}

}  // namespace profile_cost_model_test
}  // namespace twofold
