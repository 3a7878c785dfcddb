// Clusters and profiles whose files lie beside the spec that names them.
#include "experiments/program/spec/beside_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace beside_spec_test {

class BesideSpec : public testing::Test {
 protected:
  BesideSpec() { std::filesystem::create_directories(folder_ + "sub"); }
  ~BesideSpec() override { std::filesystem::remove_all(folder_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + name) << text;
    return folder_ + name;
  }
  const std::string folder_ = StrCat(testing::TempDir(), "/beside-", getpid(), "/");
};

TEST_F(BesideSpec, FilesAreFound) {
  const std::string own = Write("sub/own.cluster.textproto", ""), profile = Write("own.profile.textproto", "");
  const std::string file =
      Write("job.textproto",
            "model { preset: \"gpt-3m\" } fabric { simulated { cluster: \"sub/own.cluster.textproto\" "
            "profile: \"own.profile.textproto\" } }");
  const absl::StatusOr<spec::Spec> spec = LoadSpec(file);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(std::filesystem::equivalent(spec->fabric().simulated().cluster(), own));
  EXPECT_TRUE(std::filesystem::equivalent(spec->fabric().simulated().profile(), profile));
}

TEST_F(BesideSpec, TheWorkingDirectoryComesFirst) {
  std::filesystem::create_directories(folder_ + "examples");
  Write("examples/ddp.textproto", "");  // there is one of this name in the working directory, too
  spec::Spec spec;
  spec.mutable_fabric()->mutable_simulated()->set_cluster("examples/ddp.textproto");
  spec.mutable_emulated()->set_profile("nowhere.textproto"), spec.mutable_emulated()->set_cluster("dgx-a100");
  FindFilesBesideSpec(spec, folder_ + "job.textproto");
  EXPECT_EQ(spec.fabric().simulated().cluster(), "examples/ddp.textproto");
  EXPECT_EQ(spec.emulated().profile(), "nowhere.textproto");
  EXPECT_EQ(spec.emulated().cluster(), "dgx-a100");
}

}  // namespace beside_spec_test
}  // namespace twofold
