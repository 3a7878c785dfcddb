// Which launches repeat: sections of operations, their identity, and the numbers that may differ.
#include "core/device/launch_sections.h"

#include <vector>

#include "core/device/op_identity.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/symbolic_device.h"

namespace twofold {
namespace launch_sections_test {

using Do = LaunchSections::Do;
using ops::IdentityOf;
using ops::OpIdentity;

class LaunchSectionsTest : public testing::Test {
 protected:
  Tensor New(Shape shape, DType type = DType::kF32) {
    return device_.NewTensor(std::move(shape), type, Category::kOther);
  }
  OpIdentity Of(const ops::Op& op) { return IdentityOf(op, Tensor()); }
  static bool SamePlace(const OpIdentity& a, const OpIdentity& b) {
    return a.place[0] == b.place[0] && a.place[1] == b.place[1];
  }
  // Expects that the two differ in nothing, in numbers alone, or in more.
  void ExpectEqual(const ops::Op& a, const ops::Op& b) {
    EXPECT_TRUE(SamePlace(Of(a), Of(b)));
    EXPECT_EQ(Of(a).values, Of(b).values);
  }
  void ExpectOtherNumbers(const ops::Op& a, const ops::Op& b) {
    EXPECT_TRUE(SamePlace(Of(a), Of(b)));
    EXPECT_NE(Of(a).values, Of(b).values);
  }
  void ExpectDifferent(const ops::Op& a, const ops::Op& b) { EXPECT_FALSE(SamePlace(Of(a), Of(b))); }

  // A section of these scalings of `t`.
  LaunchSections::Decision Section(const Tensor& t, const std::vector<double>& factors) {
    for (const double factor : factors) sections_.Add(Of(ops::Scale{.x = t, .factor = factor}));
    return sections_.Close();
  }

  test::SymbolicDevice device_;
  LaunchSections sections_;
};

TEST_F(LaunchSectionsTest, TheIdentityOfAnOperationIsItsAddressesShapesTypesAndFlags) {
  const Tensor a = New({4, 4}), b = New({4, 4});
  const ops::MatMul product{.a = a, .b = b, .out = New({4, 4})};
  ExpectEqual(product, product);
  ops::MatMul other = product;
  other.transpose_b = true;
  ExpectDifferent(product, other);
  other = product;
  other.a = b;
  ExpectDifferent(product, other);
  other = product;
  other.epilogue = ops::MatMul::kGelu;
  ExpectDifferent(product, other);
  other = product;
  other.a_scaling.blocks = ops::Fp8Blocks::kRow;
  ExpectDifferent(product, other);
  ExpectDifferent(ops::Fill{a, 0}, ops::Fill{a.View({16}), 0});
  ExpectDifferent(ops::Cast{.in = a, .out = b}, ops::AddTo{.in = a, .out = b});
  ops::Rotary rotary{.x = a, .table = b, .y = a};
  ops::Rotary elsewhere = rotary;
  elsewhere.positions.offset[1] = 3;
  ExpectDifferent(rotary, elsewhere);
  const OpIdentity with = IdentityOf(product, New({512}, DType::kU8)), without = IdentityOf(product, Tensor());
  EXPECT_FALSE(SamePlace(with, without)) << "its workspace";
}

TEST_F(LaunchSectionsTest, NumbersKeysAndStepsMayDiffer) {
  const Tensor t = New({8});
  ExpectOtherNumbers(ops::Scale{.x = t, .factor = 1}, ops::Scale{.x = t, .factor = 2});
  ExpectOtherNumbers(ops::Dropout{.x = t, .y = t, .key = {1}}, ops::Dropout{.x = t, .y = t, .key = {2}});
  const ops::AdamStep adam{.param = t, .grad = t, .m = t, .v = t, .lr = 1, .step = 1};
  ops::AdamStep next = adam;
  next.step = 2;
  ExpectOtherNumbers(adam, next);
  next = adam;
  next.lr = 0.5;
  ExpectOtherNumbers(adam, next);
  next = adam;
  next.frozen = 7;
  ExpectDifferent(adam, next);
  next = adam;
  next.undecayed = std::make_shared<const std::vector<ops::ElementRange>>(1, ops::ElementRange{2, 5});
  ExpectDifferent(adam, next);
  const ops::SgdStep sgd{.param = t, .grad = t, .lr = 1, .step = 1};
  ops::SgdStep later = sgd;
  later.step = 2;
  ExpectEqual(sgd, later);  // SGD does the same in every step
  ops::SgdStep rounds = sgd;
  rounds.rounding_keys = std::make_shared<const std::vector<ops::RoundingKeyRange>>(1, ops::RoundingKeyRange{});
  later.rounding_keys = rounds.rounding_keys;
  ExpectOtherNumbers(rounds, later);
  ops::AdamStep same = adam;  // equal ranges at another place
  same.undecayed = std::make_shared<const std::vector<ops::ElementRange>>(1, ops::ElementRange{2, 5});
  ExpectEqual(next, same);
}

TEST_F(LaunchSectionsTest, BorrowedOperationsAreTheSameAndOwnNothing) {
  const Tensor a = New({4, 4}), b = New({4, 4}), c = New({4, 4});
  const ops::Op op = ops::MatMul{.a = a, .b = b, .out = c};
  const int64_t before = a.unique();
  const ops::Op borrowed = ops::Borrowed(ops::MatMul{.a = a, .b = b, .out = c});
  EXPECT_TRUE(SamePlace(Of(op), Of(borrowed)));
  EXPECT_EQ(a.unique(), before);
  const ops::Op other = ops::Borrowed(ops::Dispatch{.x = a, .choices = {b, c}, .weights = Tensor(), .slots = c});
  EXPECT_TRUE(std::get<ops::Dispatch>(other.any()).weights.empty());
  Tensor alone = New({3});
  const ops::Op kept = ops::Borrowed(ops::Dispatch{.x = a, .choices = {alone, b}, .weights = Tensor(), .slots = c});
  EXPECT_TRUE(alone.unique()) << "also what is within a field";
}

TEST_F(LaunchSectionsTest, ASectionIsLaunchedThenCapturedThenReplayed) {
  const Tensor t = New({8});
  EXPECT_EQ(Section(t, {1, 2, 3}).what, Do::kLaunch);
  const LaunchSections::Decision second = Section(t, {1, 2, 3});
  EXPECT_EQ(second.what, Do::kCapture);
  EXPECT_EQ(second.graph, 0);
  const LaunchSections::Decision third = Section(t, {1, 2, 3});
  EXPECT_EQ(third.what, Do::kReplay);
  EXPECT_TRUE(third.changed.empty());
  const LaunchSections::Decision fourth = Section(t, {1, 5, 6});
  EXPECT_EQ(fourth.what, Do::kReplay);
  EXPECT_EQ(fourth.changed, (std::vector<size_t>{1, 2}));
  EXPECT_TRUE(Section(t, {1, 5, 6}).changed.empty()) << "since the last replay";
  EXPECT_EQ(Section(t, {1, 2, 3, 4}).what, Do::kLaunch) << "one more operation";
  EXPECT_EQ(Section(New({8}), {1, 2, 3}).what, Do::kLaunch) << "elsewhere";
  EXPECT_EQ(sections_.graphs(), 1);
}

TEST_F(LaunchSectionsTest, ShortSectionsAndAbandonedOnesAreLaunched) {
  const Tensor t = New({8});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Section(t, {1, 2}).what, Do::kLaunch);
  EXPECT_EQ(sections_.Close().what, Do::kLaunch);
  EXPECT_EQ(sections_.settling(), 0);
  Section(t, {1, 2, 3});
  sections_.Abandon(Section(t, {1, 2, 3}).graph);
  EXPECT_EQ(Section(t, {1, 2, 3}).what, Do::kLaunch);
  EXPECT_EQ(sections_.settling(), 2) << "the first two times";
}

}  // namespace launch_sections_test
}  // namespace twofold
