// No operation is forgotten: each that has a row in ops::AnyOp is launched by some test of this program, and every
// kernel that one of them launched has a row in ops::KernelRows, where profiles and pictures look.
#include <set>
#include <variant>

#include "core/base/strings.h"
#include "core/device/kernel_names.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace names_test {

class Seen : public ::testing::Environment {
 public:
  void SetUp() override {
    Lab::see = [this](const ops::Op& op) {
      operations_.insert(op.any().index());
      names_.insert(std::string(ops::Key(op).name));
    };
  }
  void TearDown() override {
    Lab::see = nullptr;
    for (const std::string& name : names_)
      EXPECT_TRUE(ops::IsKernel(name)) << name << " is missing in core/device/kernel_names.cc";
    if (GTEST_FLAG_GET(filter) != "*" || std::getenv("GTEST_TOTAL_SHARDS") != nullptr) return;  // not all tests ran
    for (size_t i = 0; i < std::variant_size_v<ops::AnyOp>; ++i) {
      EXPECT_TRUE(operations_.contains(i)) << "no test launches operation " << i << " of ops::AnyOp";
    }
  }

 private:
  std::set<size_t> operations_;
  std::set<std::string> names_;
};

const ::testing::Environment* const kSeen = ::testing::AddGlobalTestEnvironment(new Seen);  // GoogleTest's to destroy

}  // namespace names_test
}  // namespace twofold
