// Execution traces of other programs: what is read of them, what is repaired, and what is refused.
#include "experiments/program/workload/chakra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "core/proto/chakra.pb.h"
#include "experiments/program/workload/order.h"
#include "experiments/program/workload/steps.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace chakra_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as another program writes it.
class File {
 public:
  File() {
    chakra::GlobalMetadata metadata;
    metadata.set_version("1.0.0");
    Put(metadata);
  }
  chakra::Node& Add(uint64_t id, const std::string& name, chakra::NodeType type, std::vector<uint64_t> after = {}) {
    chakra::Node& node = nodes_.emplace_back();
    node.set_id(id), node.set_name(name), node.set_type(type);
    for (const uint64_t before : after) node.add_data_deps(before);
    return node;
  }
  File& Kernel(uint64_t id, const std::string& name, uint64_t start, uint64_t micros, std::vector<uint64_t> after,
               int stream = 7) {
    chakra::Node& node = Add(id, name, chakra::COMP_NODE, std::move(after));
    node.set_start_time_micros(start), node.set_duration_micros(micros);
    Whole(node, "stream", stream);
    return *this;
  }
  static void Whole(chakra::Node& node, const char* name, int64_t value) {
    chakra::Attribute& a = *node.add_attr();
    a.set_name(name), a.set_int64_val(value);
  }
  static void Text(chakra::Node& node, const char* name, const std::string& value) {
    chakra::Attribute& a = *node.add_attr();
    a.set_name(name), a.set_string_val(value);
  }
  std::string bytes() {
    for (const chakra::Node& node : nodes_) Put(node);
    nodes_.clear();
    return bytes_;
  }

 private:
  void Put(const google::protobuf::MessageLite& message) {
    google::protobuf::io::StringOutputStream out(&bytes_);
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &out);
  }
  std::string bytes_;
  std::deque<chakra::Node> nodes_;
};

chakra::Node& AllReduce(File& file, uint64_t id, int64_t bytes, std::vector<uint64_t> after = {}) {
  chakra::Node& node = file.Add(id, "ncclDevKernel_AllReduce", chakra::COMM_COLL_NODE, std::move(after));
  File::Whole(node, "comm_type", chakra::ALL_REDUCE);
  File::Whole(node, "comm_size", bytes);
  return node;
}

// The bytes of a file, from the format's description alone: a varint before each message, tags of field number and
// wire type. What protobuf writes must be this.
TEST(Chakra, FieldNumbersAreThosePublished) {
  File file;
  chakra::Node& node = AllReduce(file, 5, 300, {2});
  node.set_duration_micros(9);
  const std::string text = file.bytes();
  std::string want =
      "\x07\x0a\x05"
      "1.0.0";  // GlobalMetadata: version = 1
  const std::string size =
      "\x52\x0e\x0a\x09"
      "comm_size"
      "\x48\xac\x02";
  std::string body =
      std::string("\x08\x05", 2) + "\x12\x17" + "ncclDevKernel_AllReduce" + "\x18\x07";  // id, name, type
  body += std::string("\x2a\x01\x02", 3) + std::string("\x38\x09", 2);  // data_deps = 5, packed; duration_micros = 7
  body += std::string("\x52\x0d\x0a\x09") + "comm_type" + std::string("\x48\x00", 2) +
          size;  // attr = 10: name = 1, int64_val = 9
  want += static_cast<char>(body.size()) + body;
  EXPECT_EQ(text, want);
  const auto read = ReadChakra(want, "f.et");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->nodes[0].operation, Communication::kAllReduce);
  EXPECT_EQ(read->nodes[0].bytes, 300);
  EXPECT_EQ(read->edges_dropped, 1) << "node 2 is not there";
}

// mlcommons/chakra, issue 215: kernels that depend on their launches alone.
TEST(Chakra, KernelsThatFollowNoneOfTheirStreamFollowTheOneBefore) {
  File file;
  for (const uint64_t id : {1, 2, 3}) {
    chakra::Node& launch = file.Add(id, "cudaLaunchKernel", chakra::COMP_NODE);
    launch.set_duration_micros(4);
    File::Whole(launch, "is_cpu_op", 1);
  }
  file.Kernel(12, "second", 200, 50, {2}).Kernel(11, "first", 100, 60, {1}).Kernel(13, "other stream", 150, 10, {3}, 8);
  const auto read = ReadChakra(file.bytes(), "f.et");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->edges_added, 1);
  for (const WorkloadNode& node : read->nodes) {
    std::vector<std::string> after;
    for (const int before : node.after) after.push_back(read->nodes[static_cast<size_t>(before)].name);
    if (node.name == "second") {
      EXPECT_THAT(after, ElementsAre("cudaLaunchKernel", "first"));
    }
    if (node.name == "other stream") {
      EXPECT_THAT(after, ElementsAre("cudaLaunchKernel"));
    }
  }
}

TEST(Chakra, CallsOfCollectivesWithoutATypeCountAsWork) {
  File file;
  file.Add(1, "c10d::broadcast_", chakra::COMM_COLL_NODE).set_duration_micros(5);
  const auto read = ReadChakra(file.bytes(), "f.et");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->without_type, 1);
  EXPECT_EQ(read->nodes[0].kind, WorkloadNode::kWork);
  EXPECT_DOUBLE_EQ(read->nodes[0].seconds, 5e-6);
}

// Start times that contradict the dependencies add no cycle.
TEST(Chakra, WhatIsAddedAgreesWithWhatIsThere) {
  File file;
  file.Kernel(1, "last by its clock", 300, 1, {}).Kernel(2, "other stream", 200, 1, {1}, 8);
  file.Kernel(3, "first by its clock", 100, 1, {2}).Kernel(4, "free", 50, 1, {});
  const auto read = ReadChakra(file.bytes(), "f.et");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->edges_added, 2) << "free, then the last by its clock, then the first";
}

// Issue 185: cycles.
TEST(Chakra, ACycleIsRefusedAndNamed) {
  File file;
  file.Kernel(1, "begin", 0, 1, {}, 1).Kernel(2, "aten::mm", 1, 1, {1, 4}, 2);
  file.Kernel(3, "aten::add", 2, 1, {2}, 3).Kernel(4, "aten::to", 3, 1, {3}, 4).Kernel(5, "behind", 4, 1, {4}, 5);
  const auto read = ReadChakra(file.bytes(), "f.et");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(read.status().message()),
      HasSubstr("f.et: nodes wait for each other in a cycle: 2 \"aten::mm\" -> 3 \"aten::add\" -> 4 \"aten::to\" "
                "-> 2 \"aten::mm\""));
}

TEST(Chakra, RefusesWhatIsWrongNamingTheNode) {
  const auto message = [](File& file) { return std::string(ReadChakra(file.bytes(), "f.et").status().message()); };
  File twice;
  twice.Kernel(1, "a", 0, 1, {}).Kernel(1, "b", 0, 1, {});
  EXPECT_THAT(message(twice), HasSubstr("node 1 \"b\": another node has the same id"));
  File sizeless;
  File::Whole(sizeless.Add(1, "c", chakra::COMM_COLL_NODE), "comm_type", chakra::ALL_REDUCE);
  EXPECT_THAT(message(sizeless), HasSubstr("node 1 \"c\": has no comm_size"));
  File typeless;
  typeless.Add(3, "d", chakra::INVALID_NODE);
  EXPECT_THAT(message(typeless), HasSubstr("node 3 \"d\": has type 0; expected METADATA_NODE to COMM_COLL_NODE"));
  File unknown;
  chakra::Node& node = unknown.Add(1, "e", chakra::COMM_COLL_NODE);
  File::Whole(node, "comm_type", 77);
  EXPECT_THAT(message(unknown), HasSubstr("comm_type is 77; expected 0 to 9"));
  File lonely;
  File::Whole(lonely.Add(1, "s", chakra::COMM_SEND_NODE), "comm_size", 8);
  EXPECT_THAT(message(lonely), HasSubstr("has no comm_dst"));
  EXPECT_THAT(std::string(ReadChakra("", "f.et").status().message()), HasSubstr("f.et: is empty"));
  File cut;
  cut.Kernel(1, "a", 0, 1, {});
  const std::string all = cut.bytes();
  EXPECT_THAT(std::string(ReadChakra(std::string_view(all).substr(0, all.size() - 3), "f.et").status().message()),
              HasSubstr("f.et: cannot be read beyond its first 0 nodes"));
}

class Folder : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(path_);
    std::ofstream(StrCat(path_, "/", name), std::ios::binary) << bytes;
  }
  std::string Error() { return std::string(ReadChakraFolder(path_).status().message()); }
  const std::string path_ = test::ScratchFolder("traces");
};

std::string OfGroup(const std::string& group) {
  File file;
  File::Text(AllReduce(file, 1, 8), "pg_name", group);
  return file.bytes();
}

TEST_F(Folder, JoinsRanksByTheirFiles) {
  for (const int rank : {0, 1, 2}) Write(StrCat("trace.", rank, ".et"), OfGroup(rank < 2 ? "4" : "5"));
  Write("groups.json", R"({"4": [1, 0], "5": [2]})");
  const auto read = ReadChakraFolder(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->workload.ranks.size(), 3u);
  EXPECT_THAT(read->workload.groups[0].ranks, ElementsAre(1, 0));
  EXPECT_EQ(read->workload.ranks[2][0].group, 1);
}

TEST_F(Folder, SaysWhatIsMissing) {
  EXPECT_THAT(Error(), HasSubstr("cannot be read"));
  Write("trace.1.et", OfGroup("4"));
  EXPECT_THAT(Error(), HasSubstr("has no trace of rank 0; every rank's is needed"));
  Write("trace.0.et", OfGroup("4"));
  Write("groups.json", R"({"5": [0, 1]})");
  EXPECT_THAT(Error(), HasSubstr("is of group \"4\", which groups.json does not have"));
  Write("groups.json", R"({"4": [0]})");
  EXPECT_THAT(Error(), HasSubstr("of which rank 1 is no member"));
  Write("groups.json", R"({"4": [0, 7]})");
  EXPECT_THAT(Error(), HasSubstr("group \"4\": expected a list of ranks, each from 0 to 1"));
  Write("x.et", "");
  EXPECT_THAT(Error(), HasSubstr("its name has no rank"));
}

TEST(Order, IsThatOfTheFileAsFarAsItGoes) {
  std::vector<WorkloadNode> nodes(4);
  nodes[0].after = {3}, nodes[1].after = {}, nodes[2].after = {1}, nodes[3].after = {1};
  EXPECT_THAT(OrderOf(nodes), ElementsAre(1, 2, 3, 0));
}

TEST(Steps, AreBetweenMarks) {
  std::vector<WorkloadNode> nodes;
  for (const char* name : {"step 3 begins", "step 3 ends", "step 4 begins", "step 5 ends", "step 6 begins"})
    nodes.push_back({.kind = WorkloadNode::kMark, .name = name});
  EXPECT_THAT(StepSpans(nodes, {1, 3, 4, 10, 11}),
              ElementsAre(std::pair(1.0, 3.0), std::pair(4.0, 7.0), std::pair(7.0, 10.0)));
}

}  // namespace chakra_test
}  // namespace twofold
