// Many damaged files of each kind that describes a node: each becomes a document (one in four is written and
// read again, and is as it was) and a node whose parts fit together, or a message that names the file.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "tests/fuzz/allocations.h"
#include "tests/fuzz/mutate.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/simgrid_xml.h"
#include "topologies/import/smi_matrix.h"

namespace twofold {
namespace topology_files_fuzz {

constexpr std::string_view kXmlWords[] = {"<",
                                          ">",
                                          "/>",
                                          "</",
                                          "\"",
                                          "'",
                                          "=",
                                          "&",
                                          "&amp;",
                                          "&#0;",
                                          "&#x41;",
                                          "&lt;",
                                          "<!--",
                                          "-->",
                                          "<![CDATA[",
                                          "]]>",
                                          "<?xml version='1.0'?>",
                                          "<!DOCTYPE a [<!ENTITY b 'c'>]>",
                                          "<!DOCTYPE platform SYSTEM 'x'>",
                                          "xmlns='u'",
                                          "\xff\xfe",
                                          "\xc3\xa4",
                                          "<a>",
                                          "</a>",
                                          "text",
                                          " ",
                                          "\n"};
constexpr std::string_view kNcclWords[] = {"<gpu dev=\"9\" sm=\"90\"/>",
                                           "<nic>",
                                           "</nic>",
                                           "<nvlink target=\"0000:06:00.0\" count=\"1\" tclass=\"0x030200\"/>",
                                           "<c2c bw=\"1\" count=\"1\"/>",
                                           "tclass=\"0x068000\"",
                                           "<cpu numaid=\"7\">",
                                           "</cpu>",
                                           "</pci>",
                                           "<pci busid=\"0001:02:03.4\">",
                                           "0x068001",
                                           "link_speed=\"\"",
                                           "link_width=\"0\"",
                                           "Unknown",
                                           "<pcilink target=\"0000:06:00.0\"/>",
                                           "\"",
                                           ">",
                                           "/>",
                                           "<net name=\"n\"/>",
                                           "host_hash=\"0x1\"",
                                           "&lt;",
                                           "<!--",
                                           "-->",
                                           "arch=\"ppc64\""};
constexpr std::string_view kSimgridWords[] = {"<host id=\"x\" speed=\"1Gf\"/>",
                                              "<router id=\"y\"/>",
                                              "routing=\"Floyd\"",
                                              "routing=\"Full\"",
                                              "symmetrical=\"NO\"",
                                              "direction=\"UP\"",
                                              "direction=\"DOWN\"",
                                              "sharing_policy=\"SHARED\"",
                                              "sharing_policy=\"SPLITDUPLEX\"",
                                              "<link_ctn id=\"up0\"/>",
                                              "<route src=\"h0\" dst=\"h1\">",
                                              "</route>",
                                              "<zone id=\"q\" routing=\"Full\">",
                                              "</zone>",
                                              "bb_bw=\"1GBps\"",
                                              "0-1023",
                                              "1e308GBps",
                                              "YBps",
                                              "nan",
                                              "inf",
                                              "-",
                                              ",",
                                              "\"",
                                              "/>",
                                              "<!--",
                                              "-->"};
constexpr std::string_view kSmiWords[] = {"\t",
                                          "\n",
                                          " ",
                                          "GPU0",
                                          "GPU1",
                                          "GPU99",
                                          "NIC0",
                                          "NIC0: mlx5_0",
                                          "X",
                                          " X ",
                                          "NV1",
                                          "NV18",
                                          "NV",
                                          "NV-1",
                                          "NV99999999999",
                                          "PIX",
                                          "PXB",
                                          "PHB",
                                          "NODE",
                                          "SYS",
                                          "CPU Affinity",
                                          "NUMA Affinity",
                                          "GPU NUMA ID",
                                          "N/A",
                                          "\x1b[4m",
                                          "\x1b[",
                                          "\x1b[999;",
                                          "\xff",
                                          "0-63",
                                          "\r"};

std::vector<std::string> Files(std::initializer_list<const char*> names) {
  std::vector<std::string> texts;
  for (const char* name : names) {
    std::ifstream in(std::string("tests/data/topologies/") + name, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    EXPECT_GT(texts.back().size(), 100u) << name;
  }
  return texts;
}

// Whatever a file says, what stands in the node is there, has rates, and is told apart by name.
void CheckNode(const ImportedNode& imported) {
  const NodeType& node = imported.node;
  const auto count = static_cast<int>(node.graph.vertices.size());
  ASSERT_FALSE(node.devices.empty());
  ASSERT_EQ(imported.nic_speeds.size(), node.nics.size());
  ASSERT_EQ(node.nic_of.size(), node.nics.empty() ? 0 : node.devices.size());
  for (const int nic : node.nic_of) ASSERT_TRUE(nic >= 0 && nic < static_cast<int>(node.nics.size()));
  for (const int v : node.devices)
    ASSERT_TRUE(v >= 0 && v < count && node.graph.vertices[static_cast<size_t>(v)].kind == Vertex::kDevice);
  for (const int v : node.nics)
    ASSERT_TRUE(v >= 0 && v < count && node.graph.vertices[static_cast<size_t>(v)].kind == Vertex::kNic);
  for (const Link& link : node.graph.links) {
    ASSERT_TRUE(link.from >= 0 && link.from < count && link.to >= 0 && link.to < count && link.from != link.to);
    ASSERT_TRUE(std::isfinite(link.bandwidth.value()) && link.bandwidth.value() > 0) << link.name;
    ASSERT_TRUE(std::isfinite(link.latency.value()) && link.latency.value() >= 0) << link.name;
  }
  std::set<std::string> names;
  for (const Vertex& vertex : node.graph.vertices) ASSERT_TRUE(names.insert(vertex.name).second) << vertex.name;
}

// Every device and NIC is joined to every other: MakeGraphTopology and MakeClusterTopology rest on it.
void CheckJoined(const NodeType& node) {
  std::vector<std::vector<int>> next(node.graph.vertices.size());
  for (const Link& link : node.graph.links) next[static_cast<size_t>(link.from)].push_back(link.to);
  std::vector<bool> seen(next.size());
  std::vector<int> queue = {node.devices[0]};
  seen[static_cast<size_t>(queue[0])] = true;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const int v : next[static_cast<size_t>(queue[i])]) {
      if (seen[static_cast<size_t>(v)]) continue;
      seen[static_cast<size_t>(v)] = true;
      queue.push_back(v);
    }
  }
  for (const int v : node.devices)
    ASSERT_TRUE(seen[static_cast<size_t>(v)]) << node.graph.vertices[static_cast<size_t>(v)].name;
  for (const int v : node.nics)
    ASSERT_TRUE(seen[static_cast<size_t>(v)]) << node.graph.vertices[static_cast<size_t>(v)].name;
}

template <class Read, class Write>
void Fuzz(const std::vector<std::string>& good, std::span<const std::string_view> words, Read read, Write write) {
  test::Mutator mutator(TestSeed(), {.words = words});
  test::Mutator markup(TestSeed(1), {.words = kXmlWords});
  int accepted = 0, nodes = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const std::string text = (i % 4 == 3 ? markup : mutator).Damage(good[static_cast<size_t>(i) % good.size()]);
    const test::Allocations allocations;
    const auto document = read(text, "f.in");
    const auto size = static_cast<int64_t>(text.size());
    ASSERT_LE(allocations.peak(), 200'000 + 100 * size) << text;
    if (!document.ok()) {
      ASSERT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument) << text;
      ASSERT_EQ(document.status().message().find("f.in:"), 0u) << document.status() << "\n" << text;
      continue;
    }
    ++accepted;
    if (accepted % 4 == 0) {  // writing and reading again cost as much as all else
      const auto again = read(write(*document), "again");
      ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
      ASSERT_TRUE(*again == *document) << text << "\n" << write(*document);
    }
    const auto node = NodeOf(*document);
    ASSERT_LE(allocations.peak(), 2'000'000 + 1000 * size) << text;
    if (!node.ok()) {
      ASSERT_EQ(node.status().code(), absl::StatusCode::kInvalidArgument) << text;
      ASSERT_EQ(node.status().message().find("f.in:"), 0u) << node.status() << "\n" << text;
      continue;
    }
    ++nodes;
    CheckNode(*node);
    CheckJoined(node->node);
    if (::testing::Test::HasFatalFailure()) FAIL() << text;
  }
  EXPECT_GT(accepted, Mutants() / 50) << "the mutations no longer leave readable files";
  EXPECT_LT(accepted, Mutants());
  EXPECT_GT(nodes, accepted / 8);
}

TEST(TopologyFilesFuzz, NcclXml) {
  Fuzz(Files({"pcie-4.nccl.xml", "dgx-1v.nccl.xml", "pcie-4.nccl.xml", "dgx-h100.nccl.xml", "pcie-4.nccl.xml"}),
       kNcclWords, ReadNcclXml, WriteNcclXml);
}

TEST(TopologyFilesFuzz, SmiMatrix) {
  Fuzz(Files({"dgx-h100.smi.txt", "pcie-4.smi.txt", "dgx-1v.smi.txt"}), kSmiWords, ReadSmiMatrix, WriteSmiMatrix);
}

TEST(TopologyFilesFuzz, SimgridXml) {
  Fuzz(Files({"star.simgrid.xml", "tree.simgrid.xml", "cluster.simgrid.xml", "grid.simgrid.xml"}), kSimgridWords,
       ReadSimgridXml, WriteSimgridXml);
}

}  // namespace topology_files_fuzz
}  // namespace twofold
