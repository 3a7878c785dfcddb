#include "topologies/import/nccl_xml.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/import/files.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/import/node_file.h"

namespace twofold {
namespace nccl_xml_test {

using test::RateBetween;
using test::ReadTopologyFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kFiles[] = {"dgx-h100.nccl.xml", "pcie-4.nccl.xml", "dgx-1v.nccl.xml"};

ImportedNode Import(const std::string& file) {
  const auto xml = ReadNcclXml(ReadTopologyFile(file), file);
  EXPECT_TRUE(xml.ok()) << xml.status();
  auto node = NodeOf(*xml);
  EXPECT_TRUE(node.ok()) << node.status();
  return *std::move(node);
}

// These files are written as NCCL writes them, so that not one character may differ.
TEST(NcclXml, GivesBackWhatItRead) {
  for (const char* file : kFiles) {
    const std::string text = ReadTopologyFile(file);
    const auto xml = ReadNcclXml(text, file);
    ASSERT_TRUE(xml.ok()) << xml.status();
    EXPECT_EQ(WriteNcclXml(*xml), text) << file;
    EXPECT_EQ(*ReadNcclXml(WriteNcclXml(*xml), "again"), *xml);
  }
}

TEST(NcclXml, KeepsWhatItDoesNotKnow) {
  const std::string text =
      "<!-- a comment -->\n<system version=\"1\" name=\"mine\">\n  <cpu numaid=\"0\" shiny=\"yes\">\n    <pci "
      "busid=\"0000:18:00.0\">\n"
      "      <gpu dev=\"0\" sm=\"90\" mlopart=\"0\"/>\n    </pci>\n  </cpu>\n</system>\n";
  EXPECT_EQ(WriteNcclXml(*ReadNcclXml(text, "a.xml")), text);
}

TEST(NcclNode, EightGpusOnNvswitches) {
  const ImportedNode dgx = Import("dgx-h100.nccl.xml");
  const NodeType& node = dgx.node;
  EXPECT_EQ(node.kind, "nvswitch");
  EXPECT_TRUE(node.multicast);
  ASSERT_EQ(node.devices.size(), 8u);
  ASSERT_EQ(node.nics.size(), 10u);  // two of them ports of one card
  for (int g = 0; g < 8; ++g) {
    const std::string gpu = "gpu" + std::to_string(g);
    EXPECT_EQ(node.graph.vertices[static_cast<size_t>(node.devices[static_cast<size_t>(g)])].name, gpu);
    EXPECT_DOUBLE_EQ(RateBetween(node.graph, gpu, "nvswitch", Medium::kNvlink), 450);  // 5 + 4 + 4 + 5 links of 25
  }
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu0", "pci 0000:19:00.0", Medium::kPcie), 50);  // reached of 32 GT/s x 16
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "numa0", "numa1", Medium::kMemory), 22);          // Sapphire Rapids
  EXPECT_THAT(node.nic_of, ElementsAre(0, 1, 2, 3, 6, 7, 8, 9));  // each GPU's own, not the storage card's
  EXPECT_EQ(node.graph.vertices[static_cast<size_t>(node.nics[4])].name, "nic mlx5_1");
  for (const BytesPerSecond speed : dgx.nic_speeds) EXPECT_DOUBLE_EQ(speed.value(), 50e9);
  const auto topology = MakeGraphTopology("node", node.graph, node.devices);
  std::vector<int> route;
  topology->Route({0, 7}, topology->DefaultRoute({0, 7}), route);
  EXPECT_EQ(route.size(), 2u);
  EXPECT_DOUBLE_EQ(topology->bandwidth().value(), 450e9);
}

TEST(NcclNode, FourGpusOnPcie) {
  const ImportedNode imported = Import("pcie-4.nccl.xml");
  const NodeType& node = imported.node;
  EXPECT_EQ(node.kind, "pcie_tree");
  EXPECT_FALSE(node.multicast);
  EXPECT_EQ(node.devices.size(), 4u);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu3", "pci 0000:c0:00.0", Medium::kPcie), 25);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "numa0", "numa1", Medium::kMemory), 16);  // EPYC
  EXPECT_THAT(node.nic_of, ElementsAre(0, 0, 1, 1));
  EXPECT_DOUBLE_EQ(imported.nic_speeds[0].value(), 25e9);
  const auto topology = MakeGraphTopology("node", node.graph, node.devices);
  std::vector<int> route;
  topology->Route({0, 1}, 0, route);
  EXPECT_EQ(route.size(), 2u);  // below one switch
  topology->Route({0, 3}, 0, route);
  EXPECT_EQ(route.size(), 5u);  // switch, socket, socket, switch
  EXPECT_DOUBLE_EQ(topology->bandwidth().value(), 16e9);
}

TEST(NcclNode, CubeMesh) {
  const ImportedNode imported = Import("dgx-1v.nccl.xml");
  const NodeType& node = imported.node;
  EXPECT_EQ(node.kind, "nvlink");
  for (int g = 0; g < 8; ++g) {  // six links each
    double sum = 0;
    for (int h = 0; h < 8; ++h) {
      if (h != g) sum += RateBetween(node.graph, "gpu" + std::to_string(g), "gpu" + std::to_string(h), Medium::kNvlink);
    }
    EXPECT_DOUBLE_EQ(sum, 150) << g;
  }
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu0", "gpu3", Medium::kNvlink), 50);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu0", "gpu5", Medium::kNvlink), 0);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu0", "pci 0000:02:00.0", Medium::kPcie), 12.5);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "numa0", "numa1", Medium::kMemory), 6);  // Broadwell
  EXPECT_THAT(node.nic_of, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

// Device by device, whatever their routes cross.
TEST(NcclNode, ADgx1vIsTheCatalogues) {
  const cluster::Cluster known = *FindCluster("dgx-1v");
  const ImportedNode imported = Import("dgx-1v.nccl.xml");
  const auto own = MakeClusterTopology(imported.node, 1, nullptr), theirs = *BuildTopology(known, 1);
  ASSERT_EQ(own->endpoints(), theirs->endpoints());
  EXPECT_EQ(own->rails(), theirs->rails());
  for (int a = 0; a < 8; ++a) {
    EXPECT_EQ(own->RailOf(a), theirs->RailOf(a));
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      EXPECT_EQ(own->Latency({a, b}), theirs->Latency({a, b})) << a << " to " << b;
      const auto rates = [&](const Topology& topology) {
        std::vector<int> route;
        topology.Route({a, b}, topology.DefaultRoute({a, b}), route);
        std::vector<double> found;
        for (int link : route) found.push_back(topology.links()[static_cast<size_t>(link)].bandwidth.value());
        return found;
      };
      EXPECT_EQ(rates(*own), rates(*theirs)) << a << " to " << b;
    }
  }
}

TEST(NcclNode, ByContent) {
  for (const char* file : kFiles) {
    const auto node = ReadNodeFile(std::string("tests/data/topologies/") + file);
    ASSERT_TRUE(node.ok()) << node.status();
    EXPECT_EQ(node->devices.size(), Import(file).node.devices.size());
  }
  const auto absent = ReadNodeFile("tests/data/topologies/absent.xml");
  ASSERT_FALSE(absent.ok());
  EXPECT_THAT(std::string(absent.status().message()), HasSubstr("absent.xml: cannot be read"));
}

// One GPU, with `gpu` within its element, and `more` after its PCI element.
std::string Small(const std::string& gpu, const std::string& more = "",
                  const std::string& pci = "busid='0000:18:00.0'") {
  return "<system version='1'>\n<cpu numaid='0'>\n<pci " + pci + ">\n<gpu dev='0' sm='90'>" + gpu + "</gpu></pci>\n" +
         more + "</cpu></system>";
}
constexpr const char* kOther = "<pci busid='0000:19:00.0'><gpu dev='1' sm='90'/></pci>";

TEST(NcclNode, CoherentLinksAndBridgesGoToTheCpu) {
  const ImportedNode grace = *NodeOf(*ReadNcclXml(Small("<c2c bw='44712' count='10'/>"), "a.xml"));
  EXPECT_NEAR(RateBetween(grace.node.graph, "gpu0", "numa0", Medium::kNvlink), 447.12, 1e-9);
  const ImportedNode power =
      *NodeOf(*ReadNcclXml(Small("<nvlink target='0004:00:00.0' count='3' tclass='0x068001'/>"), "a.xml"));
  EXPECT_DOUBLE_EQ(RateBetween(power.node.graph, "gpu0", "numa0", Medium::kNvlink), 75);
}

TEST(NcclNode, LinksToGpusThatAreNotThereAreNoted) {
  const auto imported =
      NodeOf(*ReadNcclXml(Small("<nvlink target='0000:99:00.0' count='4' tclass='0x030200'/>"), "a.xml"));
  ASSERT_TRUE(imported.ok());
  EXPECT_THAT(imported->notes, ::testing::Contains(HasSubstr("4 NVLinks to a GPU at 0000:99:00.0")));
}

TEST(NcclXml, BadFilesAreRefusedByLineAttributeAndValue) {
  const std::pair<std::string, const char*> cases[] = {
      {"<platform version='1'/>", "a.xml:1: <platform>: the root element of an NCCL topology must be <system>"},
      {"<system/>", "a.xml:1: <system> version: missing; give a whole number from 1 to 2"},
      {"<system version='7'/>", "<system> version = \"7\": must be a whole number from 1 to 2"},
      {"<system version='1'><cpu/></system>", "<cpu> numaid: missing"},
      {"<system version='1'>\n<gpu dev='0'/></system>",
       "a.xml:2: <gpu>: is not allowed in <system>, which can contain cpu"},
      {Small("<nvlnk/>"), "a.xml:4: <nvlnk>: is not allowed in <gpu>, which can contain nvlink, xgmi, c2c"},
      {Small("", "", "busid='18:00.0'"), "a.xml:3: <pci> busid = \"18:00.0\": must be domain:bus:device.function"},
      {Small("", "", "busid='0000:18:00.0' link_width='many'"),
       "<pci> link_width = \"many\": must be a whole number from -1 to 64"},
      {Small("", "", "busid='0000:18:00.0' link_speed='fast'"),
       "<pci> link_speed = \"fast\": must have the form \"16.0 GT/s PCIe\""},
      {Small("", "<pci busid='0000:18:00.0'/>"), "a.xml:5: <pci> busid = \"0000:18:00.0\": also used on line 3"},
      {Small("", "<pci busid='0000:19:00.0'><gpu dev='0' sm='90'/></pci>"), "<gpu> dev = \"0\": also used on line 4"},
      {Small("", "<pci busid='0000:19:00.0'><gpu dev='9999' sm='90'/></pci>"),
       "<gpu> dev = \"9999\": must be a whole number from 0 to 1023"},
      {Small("", "<pci busid='0000:19:00.0'><gpu dev='1'/></pci>"), "<gpu> sm: missing"},
      {Small("<nvlink target='0000:19:00.0' count='0' tclass='0x030200'/>"),
       "<nvlink> count = \"0\": must be a whole number from 1 to 1024"},
      {Small("<nvlink target='0000:19:00.0' count='1' tclass='0x020000'/>"),
       "<nvlink> tclass = \"0x020000\": must be the PCI class of a GPU"},
      {Small("<nvlink target='there' count='1' tclass='0x030200'/>"),
       "<nvlink> target = \"there\": must be the bus id of a GPU"},
      {Small("<nvlink count='1' tclass='0x068000'/>"), "<nvlink> target: missing"},
      {Small("<c2c count='1'/>"), "<c2c> bw: missing"},
      {Small("", "<nic><net/></nic>"), "<net> name: missing"},
      {Small("", "<nic><net name='a' speed='-7'/></nic>"), "<net> speed = \"-7\": must be a whole number"},
      {Small("some text"), "<gpu>: contains text (\"some text\")"},
  };
  for (const auto& [text, message] : cases) {
    const auto xml = ReadNcclXml(text, "a.xml");
    ASSERT_FALSE(xml.ok()) << text;
    EXPECT_THAT(std::string(xml.status().message()), HasSubstr(message)) << text;
  }
}

TEST(NcclNode, WhatCannotBeIsRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {"<system version='1'><cpu numaid='0'/></system>", "<system>: contains no <gpu>"},
      {Small("<nvlink target='0000:19:00.0' count='2' tclass='0x030200'/>", kOther),
       "has 2 links to dev 1 (line 5), which has 0 back"},
      {Small("<nvlink target='0000:18:00.0' count='2' tclass='0x030200'/>"),
       "<nvlink> target = \"0000:18:00.0\": must not be the GPU itself"},
      {Small("", "</cpu><cpu numaid='0'>"), "<cpu> numaid = \"0\": used by two CPUs"},
      {Small("", "</cpu><cpu numaid='1' host_hash='0x1'>"), "<cpu> host_hash = \"0x1\": belongs to another host"},
      {"<system version='1'><cpu numaid='0'><pci busid='0000:18:00.0'><gpu dev='0' sm='90'/><gpu dev='1' "
       "sm='90'/></pci></cpu></system>",
       "<pci> busid = \"0000:18:00.0\": contains a <gpu> and other elements"},
  };
  for (const auto& [text, message] : cases) {
    const auto xml = ReadNcclXml(text, "a.xml");
    ASSERT_TRUE(xml.ok()) << xml.status() << text;
    const auto node = NodeOf(*xml);
    ASSERT_FALSE(node.ok()) << text;
    EXPECT_THAT(std::string(node.status().message()), HasSubstr(message)) << text;
  }
}

}  // namespace nccl_xml_test
}  // namespace twofold
