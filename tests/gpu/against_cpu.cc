#include "tests/gpu/against_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "kernels/cpu/convert.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/seed.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace {

// The GPU that all cases run on, made once for each kind of attention: libraries take their time to load. Never
// destroyed.
struct Gpu {
  explicit Gpu(cuda::AttentionKernels attention) : device(allocator, host, 0, 0, {.attention = attention}) {}
  cuda::GpuSource source{0};
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator{source, 0}, host{host_source, 0, "host memory"};
  CudaDevice device;
};
Gpu& TheGpu(cuda::AttentionKernels attention) {
  static auto& gpus = *new std::map<cuda::AttentionKernels, Gpu>;
  return gpus.try_emplace(attention, attention).first->second;
}

// What one of the two devices computes with. Both draw the same numbers, in the order of the calls.
class Side : public Operands {
 public:
  explicit Side(DType under_test) : under_test_(under_test), rng_(TestSeed()) {}

  Tensor Normal(Shape shape, double deviation, double mean) override {
    return Given(Draw(shape, std::normal_distribution<double>(mean, deviation)), shape, under_test_);
  }
  Tensor Uniform(Shape shape, double low, double high) override {
    return Given(Draw(shape, std::uniform_real_distribution<double>(low, high)), shape, under_test_);
  }
  Tensor WideNormal(Shape shape, double deviation, double mean) override {
    return Given(Draw(shape, std::normal_distribution<double>(mean, deviation)), shape, Wide(under_test_));
  }
  Tensor WideUniform(Shape shape, double low, double high) override {
    return Given(Draw(shape, std::uniform_real_distribution<double>(low, high)), shape, Wide(under_test_));
  }
  Tensor Ids(Shape shape, int64_t limit, DType type) override {
    return Given(Draw(shape, std::uniform_int_distribution<int64_t>(0, limit - 1)), shape, type);
  }
  Tensor Values(Shape shape, std::function<double(int64_t)> value, DType type) override {
    twofold::Values values(At(shape.numel()));
    for (int64_t i = 0; i < shape.numel(); ++i) values[At(i)] = value(i);
    return Given(std::move(values), shape, type);
  }
  Tensor Out(Shape shape) override { return OutOf(std::move(shape), under_test_); }
  Tensor WideOut(Shape shape) override { return OutOf(std::move(shape), Wide(under_test_)); }
  Tensor OutOf(Shape shape, DType type) override {
    const std::string poison(At(shape.numel() * ElementSize(Stored(type))), '\xff');
    return Keep({New(shape, Stored(type)), poison, true});
  }
  Tensor InOut(Tensor operand) override {
    for (Kept& k : kept_)
      if (k.tensor.address() == operand.address() && k.tensor.bytes() == operand.bytes()) k.written = true;
    return operand;
  }

  struct Kept {
    Tensor tensor;
    std::string bytes;  // at the start
    bool written = false;
  };
  const std::vector<Kept>& kept() const { return kept_; }
  virtual std::string Read(const Tensor& t) = 0;
  virtual void Launch(const ops::Op& op) = 0;

 protected:
  virtual DType Stored(DType type) const = 0;  // what a tensor of this type has on this side
  virtual Tensor New(const Shape& shape, DType type) = 0;
  virtual void Write(Tensor& t, const std::string& bytes) = 0;
  void Forget() { kept_.clear(); }  // before the device that the tensors lie on

 private:
  template <class Distribution>
  twofold::Values Draw(const Shape& shape, Distribution distribution) {
    twofold::Values values(At(shape.numel()));
    for (double& v : values) v = static_cast<double>(distribution(rng_));
    return values;
  }
  // Rounded to `type` on both sides.
  Tensor Given(twofold::Values values, const Shape& shape, DType type) {
    const int64_t n = shape.numel();
    const DType stored = Stored(type);
    std::string rounded(At(n * ElementSize(type)), '\0'), bytes(At(n * ElementSize(stored)), '\0');
    cpu::Convert(values.data(), DType::kF64, rounded.data(), type, n);
    if (stored == type)
      bytes = rounded;
    else
      cpu::Convert(rounded.data(), type, bytes.data(), stored, n);
    return Keep({New(shape, stored), std::move(bytes), false});
  }
  Tensor Keep(Kept kept) {
    Write(kept.tensor, kept.bytes);
    kept_.push_back(std::move(kept));
    return kept_.back().tensor;
  }

  const DType under_test_;
  std::mt19937 rng_;
  std::vector<Kept> kept_;
};

struct CpuLab {
  Lab lab_{1, 0};
};
class OnCpu : CpuLab /* whose memory outlives the tensors */, public Side {
 public:
  using Side::Side;
  ~OnCpu() override { Forget(); }
  DType type() const override { return DType::kF64; }
  std::string Read(const Tensor& t) override { return BitsOf(t); }
  void Launch(const ops::Op& op) override { lab_.Run(op); }

 protected:
  DType Stored(DType type) const override { return IsFloat(type) ? DType::kF64 : type; }
  Tensor New(const Shape& shape, DType type) override { return lab_.Blank(shape, type); }
  void Write(Tensor& t, const std::string& bytes) override {
    if (!bytes.empty()) std::memcpy(t.raw(), bytes.data(), bytes.size());
  }
};

class OnGpu : public Side {
 public:
  // Tensors begin `offset` elements after an address that is a multiple of 512 bytes.
  OnGpu(DType under_test, int64_t offset, cuda::AttentionKernels attention)
      : Side(under_test), under_test_(under_test), offset_(offset), gpu_(TheGpu(attention)) {}
  DType type() const override { return under_test_; }
  std::string Read(const Tensor& t) override {
    std::string bytes(At(t.bytes().value()), '\0');
    gpu_.device.Download(t, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
  void Launch(const ops::Op& op) override {
    // What the workspace will be is poisoned, too: the allocator gives the same block again. Of what libraries get,
    // only the beginning.
    const int64_t workspace = ops::Workspace(op, DeviceKind::kCuda, 1).value();
    if (workspace > 0) {
      const Tensor t = gpu_.device.NewTensor({workspace}, DType::kU8, Category::kOther);
      Tensor beginning = t.Slice(0, std::min<int64_t>(workspace, 2 << 20));
      Write(beginning, std::string(At(beginning.numel()), '\xff'));
    }
    gpu_.device.Launch(gpu_.device.compute(), op);
  }

 protected:
  DType Stored(DType type) const override { return type; }
  Tensor New(const Shape& shape, DType type) override {
    return gpu_.device.NewTensor({shape.numel() + offset_}, type, Category::kOther).Slice(offset_, shape);
  }
  void Write(Tensor& t, const std::string& bytes) override {
    gpu_.device.Upload(
        t, [&bytes](std::span<std::byte> to) { std::ranges::copy(std::as_bytes(std::span(bytes)), to.begin()); });
  }

 private:
  const DType under_test_;
  const int64_t offset_;
  Gpu& gpu_;
};

Values AsDoubles(const std::string& bytes, DType type) {
  Values values(bytes.size() / At(ElementSize(type)));
  cpu::Convert(bytes.data(), type, values.data(), DType::kF64, static_cast<int64_t>(values.size()));
  return values;
}

// Where numbers of the type end: what is smaller may as well be nothing.
double Smallest(DType type) { return type == DType::kF16 ? 0x1p-24 : 1e-38; }

// Of an element whose terms, of sizes about 1, may cancel out: what arithmetic in f32 is off by, or less where less is
// tolerated.
double OfTerms(double tolerance) { return std::min(tolerance, 4e-6); }

void ExpectClose(const Values& got, const Values& want, const Tensor& output, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  double wrong = 0, whole = 0, largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(want[i])) continue;
    whole += want[i] * want[i];
    largest = std::max(largest, std::abs(want[i]));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const bool same = std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i];
    if (same) continue;
    ASSERT_TRUE(std::isfinite(want[i]) && std::isfinite(got[i]))
        << "element " << i << " of " << output.ToString() << " is " << got[i] << ", on the CPU " << want[i];
    const double off = std::max(0.0, std::abs(got[i] - want[i]) - Smallest(output.dtype()));
    ASSERT_LE(off, 20 * (tolerance * largest + OfTerms(tolerance)))
        << "element " << i << " of " << output.ToString() << " is " << got[i] << ", on the CPU " << want[i]
        << "; the largest is " << largest;
    wrong += off * off;
  }
  const double terms = OfTerms(tolerance) * std::sqrt(static_cast<double>(want.size()));
  EXPECT_LE(std::sqrt(wrong), tolerance * std::sqrt(whole) + terms)
      << "of all of " << output.ToString() << ", whose norm is " << std::sqrt(whole);
}

// Whether a case is run: each test's first is, and of the others one in TWOFOLD_TEST_SAMPLE, drawn by the test's name
// and the case's place in it.
bool InSample() {
  static const uint64_t one_in = [] {
    const char* given = std::getenv("TWOFOLD_TEST_SAMPLE");
    return given == nullptr || Full() ? 1 : std::max(1ull, std::strtoull(given, nullptr, 10));
  }();
  static const ::testing::TestInfo* last = nullptr;
  static uint64_t place = 0;
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  place = std::exchange(last, test) == test ? place + 1 : 0;
  return place == 0 || TestSeed(place) % one_in == 0;
}

}  // namespace

void ExpectLikeCpu(DType type, double tolerance, const std::function<ops::Op(Operands&)>& build,
                   const OnDevice& device) {
  if (!InSample()) return;
  OnCpu cpu(type);
  const ops::Op reference = build(cpu);
  const std::string name = StrCat(std::string(ops::Key(reference).name), " of ", Name(type));
  cpu.Launch(reference);

  std::vector<std::string> first;  // of the aligned run
  for (const int64_t offset : {0, 0, 1}) {
    if (offset != 0 && !device.any_alignment) continue;
    SCOPED_TRACE(StrCat(name, offset == 0 ? ", aligned" : ", tensors begin at any element"));
    OnGpu gpu(type, offset, device.attention);
    gpu.Launch(build(gpu));
    ASSERT_EQ(gpu.kept().size(), cpu.kept().size()) << "both sides ask for the same tensors";
    std::vector<std::string> bits;
    for (size_t i = 0; i < gpu.kept().size(); ++i) {
      const auto& [tensor, before, written] = gpu.kept()[i];
      SCOPED_TRACE(StrCat("tensor ", i, " that was asked for, ", tensor.ToString()));
      bits.push_back(gpu.Read(tensor));
      if (!written) {
        EXPECT_TRUE(bits.back() == before) << "an operand has changed";
        continue;
      }
      const Tensor& want = cpu.kept()[i].tensor;
      if (IsFloat(tensor.dtype()))
        ASSERT_NO_FATAL_FAILURE(ExpectClose(AsDoubles(bits.back(), tensor.dtype()),
                                            AsDoubles(cpu.Read(want), want.dtype()), tensor, tolerance));
      else
        EXPECT_TRUE(bits.back() == cpu.Read(want)) << "integers differ";
    }
    if (first.empty()) first = bits;
    EXPECT_TRUE(offset != 0 || !device.same_bits || bits == first) << "a second run gives other bits";
  }
}

void GpuTest::SetUp() {
  if (const std::string why = WhyNoGpu(); !why.empty()) GTEST_SKIP() << "skipped without a GPU: " << why;
}

}  // namespace twofold
