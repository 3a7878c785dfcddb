// The catalogue of frameworks, and files in its format.
#include "topologies/frameworks.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace frameworks_test {

using testing::HasSubstr;

TEST(Frameworks, EveryNameOfASpecHasAFile) {
  EXPECT_EQ(ListFrameworks().size(), static_cast<size_t>(spec::Framework_ARRAYSIZE - 1));
  for (int f = spec::Framework_MIN; f <= spec::Framework_MAX; ++f) {
    spec::Spec spec;
    spec.set_framework(static_cast<spec::Framework>(f));
    const auto found = FindFramework(spec);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->name(), f == spec::TWOFOLD ? "" : spec::Framework_Name(spec.framework()));
    EXPECT_EQ(found->source().empty(), f == spec::TWOFOLD);
  }
}

// The message that refuses a file with this text.
std::string Refusal(const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / StrCat("frameworks_test_", getpid(), ".textproto");
  std::ofstream(path) << text;
  spec::Spec spec;
  spec.set_framework(spec::MEGATRON);
  spec.set_framework_profile(path.string());
  const auto found = FindFramework(spec);
  std::filesystem::remove(path);
  return std::string(found.status().message());
}

TEST(Frameworks, FilesAreChecked) {
  EXPECT_EQ(Refusal("name: \"mine\" memory { context_mib: 500 held { name: \"a copy\" mib: 1 } }"), "");
  EXPECT_THAT(Refusal("summary: \"nameless\""), HasSubstr("name: missing"));
  EXPECT_THAT(Refusal("name: \"mine\" time { launch: 1 }"), HasSubstr("time.launch: \"launch\" is not a field"));
  EXPECT_THAT(Refusal("name: \"mine\" time { launch_us: -1 }"), HasSubstr("time.launch_us = -1: must not be negative"));
  EXPECT_EQ(Refusal("name: \"mine\" time { kernels { name: \"add\" factor: 0 } }"), "");
  EXPECT_THAT(Refusal("name: \"mine\" time { kernels { name: \"add\" factor: -1 } }"),
              HasSubstr("time.kernels.factor = -1: must not be negative"));
  EXPECT_THAT(Refusal("name: \"mine\" time { separate: \"softmax\" }"),
              HasSubstr("time.separate: \"softmax\": use add, add_to, gelu_forward or gelu_backward"));
  EXPECT_THAT(Refusal("name: \"mine\" time { moved { bytes_per_element: 6 } }"),
              HasSubstr("time.moved.before: missing"));
  EXPECT_THAT(Refusal("name: \"mine\" time { moved { before: ALL_GATHER bytes_per_element: 0 } }"),
              HasSubstr("time.moved.bytes_per_element = 0: must be greater than 0"));
  EXPECT_THAT(Refusal("name: \"mine\" memory { held { mib: 1 } }"), HasSubstr("memory.held.name: missing"));
  EXPECT_THAT(Refusal("name: \"mine\" memory { context { mib: 1 } }"), HasSubstr("memory.context.device: missing"));
  EXPECT_THAT(Refusal("name: \"mine\" time { communication_launch_us: -1 }"),
              HasSubstr("time.communication_launch_us = -1"));
  EXPECT_THAT(Refusal("name: \"mine\" time { tp_overlap { launch_us: -1 } }"),
              HasSubstr("time.tp_overlap.launch_us = -1"));
  EXPECT_THAT(Refusal("name: \"mine\" time { tp_overlap { streams: 0 } }"),
              HasSubstr("time.tp_overlap.streams: 0: a product needs at least one stream"));
  EXPECT_THAT(Refusal("name: \"mine\" time { families { factor: 2 } }"), HasSubstr("time.families.kind: missing"));
  EXPECT_THAT(Refusal("name: \"mine\" time { families { kind: LOSS factor: 0 } }"),
              HasSubstr("time.families.factor = 0"));
  EXPECT_THAT(Refusal("name: \"mine\" memory { communicator_mib: -1 }"), HasSubstr("memory.communicator_mib = -1"));
  EXPECT_THAT(Refusal("name: \"mine\" memory { slack { when_full: -1 } }"), HasSubstr("memory.slack.when_full = -1"));
}

}  // namespace frameworks_test
}  // namespace twofold
