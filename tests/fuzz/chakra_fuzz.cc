// Many damaged execution traces: each is read as a graph in order, or refused with a message that names the file.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "core/base/strings.h"
#include "core/proto/chakra.pb.h"
#include "experiments/program/workload/chakra.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace chakra_fuzz {

void Put(const google::protobuf::MessageLite& message, std::string& bytes) {
  google::protobuf::io::StringOutputStream out(&bytes);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &out);
}

// Kernels on two streams, collectives and messages.
std::string Good() {
  std::string bytes;
  chakra::GlobalMetadata metadata;
  metadata.set_version("1.0.0");
  Put(metadata, bytes);
  for (uint64_t id = 0; id < 24; ++id) {
    chakra::Node node;
    node.set_id(id), node.set_name(StrCat("node ", id)), node.set_duration_micros(id * 3);
    node.set_start_time_micros(1000 - id);
    if (id > 2) node.add_data_deps(id - 1), node.add_ctrl_deps(id / 2);
    const auto whole = [&node](const char* name, int64_t value) {
      chakra::Attribute& a = *node.add_attr();
      a.set_name(name), a.set_int64_val(value);
    };
    whole("stream", static_cast<int64_t>(id % 2));
    const chakra::NodeType types[] = {chakra::COMP_NODE, chakra::COMM_COLL_NODE, chakra::COMM_SEND_NODE,
                                      chakra::COMM_RECV_NODE};
    node.set_type(types[id % 4]);
    if (id % 4 > 0) whole("comm_type", 0), whole("comm_size", 4096), whole("comm_src", 1), whole("comm_dst", 1);
    Put(node, bytes);
  }
  return bytes;
}

TEST(ChakraFuzz, EveryTraceIsAGraphOrRefused) {
  const std::string good = Good();
  test::Mutator mutator(TestSeed(), {.numbers = false});
  std::mt19937 random(TestSeed(1));
  const auto changed_a_little = [&] {  // lengths stay, mostly, and so does the frame of messages
    std::string bytes = good;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 3);
    return bytes;
  };
  int read_well = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const absl::StatusOr<ChakraRank> read = ReadChakra(i % 2 == 0 ? mutator.Damage(good) : changed_a_little(), "f.et");
    if (!read.ok()) {
      ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_EQ(read.status().message().find("f.et:"), 0u) << read.status();
      continue;
    }
    ++read_well;
    for (size_t n = 0; n < read->nodes.size(); ++n) {
      const WorkloadNode& node = read->nodes[n];
      ASSERT_GE(node.seconds, 0);
      ASSERT_GE(node.bytes, 0);
      for (const int before : node.after) ASSERT_TRUE(before >= 0 && static_cast<size_t>(before) < n);
    }
    for (const ChakraRank::Communication& c : read->communications) ASSERT_LT(c.node, read->nodes.size());
  }
  EXPECT_GT(read_well, Mutants() / 50) << "the mutations no longer leave readable traces";
  EXPECT_LT(read_well, Mutants());
}

}  // namespace chakra_fuzz
}  // namespace twofold
