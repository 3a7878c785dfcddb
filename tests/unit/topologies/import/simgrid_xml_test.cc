#include "topologies/import/simgrid_xml.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/import/files.h"
#include "topologies/import/node_file.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace simgrid_xml_test {

using test::RateBetween;
using test::ReadTopologyFile;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr const char* kFiles[] = {"star.simgrid.xml", "tree.simgrid.xml", "cluster.simgrid.xml", "grid.simgrid.xml"};

ImportedNode Import(const std::string& text) {
  const auto xml = ReadSimgridXml(text, "a.xml");
  EXPECT_TRUE(xml.ok()) << xml.status();
  auto node = NodeOf(*xml);
  EXPECT_TRUE(node.ok()) << node.status();
  return *std::move(node);
}

// Of "<a b='c'>" all of a, b and c in their order: everything but how it is laid out.
TEST(SimgridXml, GivesBackWhatItRead) {
  for (const char* file : kFiles) {
    const std::string text = ReadTopologyFile(file);
    const auto xml = ReadSimgridXml(text, file);
    ASSERT_TRUE(xml.ok()) << xml.status();
    EXPECT_EQ(xml->document.type_system, "https://simgrid.org/simgrid.dtd");
    EXPECT_EQ(*ReadSimgridXml(WriteSimgridXml(*xml), "again"), *xml) << file;
    EXPECT_EQ(WriteSimgridXml(*ReadSimgridXml(WriteSimgridXml(*xml), "again")), WriteSimgridXml(*xml));
  }
  const std::string written = WriteSimgridXml(*ReadSimgridXml(ReadTopologyFile("grid.simgrid.xml"), "grid"));
  EXPECT_THAT(written, HasSubstr("<trace id=\"day\" periodicity=\"86400.0\">\n0.0 1.0\n43200.0 0.5\n</trace>"));
  EXPECT_THAT(written, HasSubstr("<!-- Two sites, a torus on one"));
  EXPECT_THAT(written, HasSubstr("topology=\"TORUS\" topo_parameters=\"2,2,2\""));
}

TEST(SimgridXml, Figures) {
  const std::tuple<const char*, SimgridUnit, double> cases[] = {{"125MBps", SimgridUnit::kBandwidth, 125e6},
                                                                {"1.25GBps", SimgridUnit::kBandwidth, 1.25e9},
                                                                {"10Gbps", SimgridUnit::kBandwidth, 1.25e9},
                                                                {"1KiBps", SimgridUnit::kBandwidth, 1024},
                                                                {"2MiBps", SimgridUnit::kBandwidth, 2 << 20},
                                                                {"1e6Bps", SimgridUnit::kBandwidth, 1e6},
                                                                {"3000", SimgridUnit::kBandwidth, 3000},
                                                                {"1EBps", SimgridUnit::kBandwidth, 1e18},
                                                                {"50us", SimgridUnit::kTime, 50e-6},
                                                                {"1.5ms", SimgridUnit::kTime, 1.5e-3},
                                                                {"0", SimgridUnit::kTime, 0},
                                                                {"2m", SimgridUnit::kTime, 120},
                                                                {"1Gf", SimgridUnit::kSpeed, 1e9},
                                                                {"98.095Mf", SimgridUnit::kSpeed, 98.095e6},
                                                                {"5Tflops", SimgridUnit::kSpeed, 5e12},
                                                                {"fast", SimgridUnit::kSpeed, -1},
                                                                {"10 parsecs", SimgridUnit::kTime, -1},
                                                                {"-5us", SimgridUnit::kTime, -1},
                                                                {"", SimgridUnit::kTime, -1},
                                                                {"1e999Bps", SimgridUnit::kBandwidth, -1},
                                                                {"nan", SimgridUnit::kTime, -1}};
  for (const auto& [text, unit, value] : cases) EXPECT_DOUBLE_EQ(SimgridFigure(text, unit), value) << text;
}

TEST(SimgridNode, FullZonesShowTheirVerticesInTheirRoutes) {
  const ImportedNode imported = Import(ReadTopologyFile("star.simgrid.xml"));
  const Graph& graph = imported.node.graph;
  EXPECT_EQ(imported.node.devices.size(), 4u);
  EXPECT_TRUE(imported.node.nics.empty());
  ASSERT_EQ(graph.vertices.size(), 5u);  // the routes meet in one switch
  for (int h = 0; h < 4; ++h)
    EXPECT_DOUBLE_EQ(RateBetween(graph, "node-" + std::to_string(h), "switch 0", Medium::kNetwork), 1.25);
  const auto topology = MakeGraphTopology("simgrid", graph, imported.node.devices);
  EXPECT_NEAR(topology->Latency({0, 3}).value(), 1e-6, 1e-18);
}

TEST(SimgridNode, FloydZonesAreGraphs) {
  const ImportedNode imported = Import(ReadTopologyFile("tree.simgrid.xml"));
  const auto topology = MakeGraphTopology("simgrid", imported.node.graph, imported.node.devices);
  EXPECT_EQ(topology->endpoints(), 8);
  EXPECT_NEAR(topology->Latency({0, 1}).value(), 40e-6, 1e-12);
  EXPECT_NEAR(topology->Latency({0, 7}).value(), 100e-6, 1e-12);
  EXPECT_DOUBLE_EQ(RateBetween(imported.node.graph, "leaf0", "spine", Medium::kNetwork), 0.025);
  EXPECT_THAT(imported.notes, Contains(HasSubstr("SHARED")));  // the ports
}

TEST(SimgridNode, ClustersAreStars) {
  const ImportedNode imported = Import(ReadTopologyFile("cluster.simgrid.xml"));
  EXPECT_EQ(imported.node.devices.size(), 7u);
  EXPECT_DOUBLE_EQ(RateBetween(imported.node.graph, "bob-12.grid", "cluster router", Medium::kNetwork), 0.125);
  const auto topology = MakeGraphTopology("simgrid", imported.node.graph, imported.node.devices);
  EXPECT_NEAR(topology->Latency({0, 6}).value(), 600e-6, 1e-12);  // two links of 50 us, the backbone's 500 us
}

// Out and in again: routes of the same rates and latencies between every two.
TEST(SimgridXml, WhatIsExportedIsImported) {
  for (const char* file : {"dgx-1v.nccl.xml", "dgx-h100.nccl.xml", "tree.simgrid.xml"}) {
    const ImportedNode imported = *ReadImportedNode(ReadTopologyFile(file), file);
    const auto before = MakeGraphTopology("node", imported.node.graph, imported.node.devices);
    const auto xml = SimgridOf(*before);
    ASSERT_TRUE(xml.ok()) << xml.status();
    const auto read = ReadSimgridXml(WriteSimgridXml(*xml), "out.xml");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, *xml);
    const auto again = NodeOf(*read);
    ASSERT_TRUE(again.ok()) << file << ": " << again.status();
    const auto after = MakeGraphTopology("node", again->node.graph, again->node.devices);
    ASSERT_EQ(after->endpoints(), before->endpoints());
    std::vector<int> route;
    for (Pair pair{0, 0}; pair.from < before->endpoints(); ++pair.from) {
      for (pair.to = 0; pair.to < before->endpoints(); ++pair.to) {
        if (pair.from == pair.to) continue;
        std::vector<double> rates[2];
        for (const Topology* t : {before.get(), after.get()}) {
          t->Route(pair, t->DefaultRoute(pair), route);
          for (const int link : route)
            rates[t == after.get()].push_back(t->links()[static_cast<size_t>(link)].bandwidth.value());
        }
        EXPECT_EQ(rates[0], rates[1]);
        EXPECT_EQ(before->Latency(pair), after->Latency(pair));
      }
    }
  }
}

TEST(SimgridXml, ExportsOnlyWhatCanBeLoaded) {
  const auto big = SimgridOf(*MakeStar({.hosts = 2000, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1e-6)}));
  ASSERT_FALSE(big.ok());
  EXPECT_THAT(
      std::string(big.status().message()),
      HasSubstr("a Full zone of 2000 endpoints would have 3998000 routes with more than 4000000 links in total"));
  EXPECT_THAT(std::string(big.status().message()), HasSubstr("export fewer nodes"));
}

std::string Zone(const std::string& inner, const std::string& routing = "Full") {
  return "<platform version='4.1'>\n<zone id='z' routing='" + routing + "'>\n" + inner + "\n</zone></platform>";
}
constexpr const char* kTwo = "<host id='a' speed='1Gf'/><host id='b' speed='1Gf'/>";

TEST(SimgridXml, BadFilesAreRefusedByLineAttributeAndValue) {
  const std::pair<std::string, const char*> cases[] = {
      {"<system version='1'/>", "a.xml:1: <system>: the root element of a SimGrid platform must be <platform>"},
      {"<platform version='3'/>", "<platform> version = \"3\": must be 4 or 4.1"},
      {"<platform version='4.1'><zone id='z'/></platform>", "<zone> routing: missing; <zone> needs id, routing"},
      {Zone("<hots id='a'/>"), "a.xml:3: <hots>: is not allowed in <zone>, which can contain zone"},
      {Zone("<host id='a'/>"), "a.xml:3: <host> speed: missing"},
      {Zone("<host id='a' speed='quick'/>"),
       "<host> speed = \"quick\": must be a number with its unit, such as \"1Gf\""},
      {Zone("<link id='l' bandwidth='1GB'/>"),
       "<link> bandwidth = \"1GB\": must be a number with its unit, such as \"125MBps\""},
      {Zone("<link id='l' bandwidth='1GBps' latency='soon'/>"),
       "<link> latency = \"soon\": must be a number with its unit, such as \"50us\""},
      {Zone("<link id='l' bandwidth='1GBps' sharing_policy='NONE'/>"),
       "<link> sharing_policy = \"NONE\": must be SHARED"},
      {Zone(std::string(kTwo) + "\n<host id='a' speed='1Gf'/>"), "a.xml:4: <host> id = \"a\": also used on line 3"},
      {Zone(std::string(kTwo) + "<route src='a' dst='c'/>"), "<route> dst = \"c\": no host or router has this id"},
      {Zone(std::string(kTwo) + "<route src='a' dst='b'><link_ctn id='l'/></route>"),
       "<link_ctn> id = \"l\": no link has this id"},
      {Zone(std::string(kTwo) +
            "<link id='l' bandwidth='1GBps'/><route src='a' dst='b'><link_ctn id='l' direction='UP'/></route>"),
       "<link_ctn> direction = \"UP\": only SPLITDUPLEX links"},
      {Zone(std::string(kTwo) + "words"), "<zone>: contains text (\"words"},
  };
  for (const auto& [text, message] : cases) {
    const auto xml = ReadSimgridXml(text, "a.xml");
    ASSERT_FALSE(xml.ok()) << text;
    EXPECT_THAT(std::string(xml.status().message()), HasSubstr(message)) << text;
  }
}

TEST(SimgridNode, WhatCannotBeANodeIsRefused) {
  const std::string link = "<link id='l' bandwidth='1GBps' sharing_policy='SPLITDUPLEX'/>";
  const std::pair<std::string, const char*> cases[] = {
      {"<platform version='4.1'/>", "<platform>: contains no zone of hosts"},
      {Zone("", "Full"), "<zone> id = \"z\": contains no hosts"},
      {Zone(kTwo, "Vivaldi"), "<zone> routing = \"Vivaldi\": must be Full, Floyd or Dijkstra"},
      {Zone(kTwo), "no route connects a to b"},
      {Zone(std::string(kTwo) + "<link id='l' bandwidth='1GBps' sharing_policy='FATPIPE'/>"),
       "<link> sharing_policy = \"FATPIPE\": must be SHARED or SPLITDUPLEX"},
      {Zone(std::string(kTwo) + link + "<route src='a' dst='b'/>"), "<route>: contains no links"},
      {Zone(std::string(kTwo) + link +
            "<route src='a' dst='b' symmetrical='NO'><link_ctn id='l' direction='UP'/></route>"),
       "<link> id = \"l\": is used in one direction only"},
      {Zone("<zone id='y' routing='Full'/><zone id='x' routing='Full'/>"), "<zone> id = \"x\": a second zone"},
      {ReadTopologyFile("grid.simgrid.xml"), "<zone> id = \"lab\": a second zone"},
      {Zone("<cluster id='c' prefix='c' suffix='' radical='0-9' speed='1Gf' bw='1GBps' lat='1us' topology='TORUS'/>"),
       "<cluster> topology = \"TORUS\": only a FLAT cluster"},
      {Zone("<cluster id='c' prefix='c' suffix='' radical='0-9' speed='1Gf' bw='1GBps' lat='1us' bb_bw='2GBps'/>"),
       "<cluster> bb_bw = \"2GBps\": a backbone that limits"},
      {Zone("<cluster id='c' prefix='c' suffix='' radical='0-99999' speed='1Gf' bw='1GBps' lat='1us'/>"),
       "<cluster> radical = \"0-99999\": must name at most 1024 hosts"},
      {Zone("<cluster id='c' prefix='c' suffix='' radical='9-0' speed='1Gf' bw='1GBps' lat='1us'/>"),
       "<cluster> radical = \"9-0\": must be numbers and ranges"},
  };
  for (const auto& [text, message] : cases) {
    const auto xml = ReadSimgridXml(text, "a.xml");
    ASSERT_TRUE(xml.ok()) << xml.status() << text;
    const auto node = NodeOf(*xml);
    ASSERT_FALSE(node.ok()) << text;
    EXPECT_THAT(std::string(node.status().message()), HasSubstr(message)) << text;
  }
}

TEST(SimgridNode, RoutesThatAreNotTheShortestAreRefused) {
  std::string text = Zone(std::string(kTwo) + "<host id='c' speed='1Gf'/>");
  for (const char* name : {"ab", "bc"}) {
    text.insert(text.find("\n</zone>"),
                "<link id='" + std::string(name) + "' bandwidth='1GBps' sharing_policy='SPLITDUPLEX'/>");
  }
  const auto route = [&](const std::string& from, const std::string& to, const std::string& links) {
    text.insert(text.find("\n</zone>"), "\n<route src='" + from + "' dst='" + to + "'>" + links + "</route>");
  };
  route("a", "b", "<link_ctn id='ab' direction='UP'/>");
  route("b", "c", "<link_ctn id='bc' direction='UP'/>");
  route("a", "c", "<link_ctn id='ab' direction='UP'/><link_ctn id='bc' direction='UP'/>");
  const auto node = NodeOf(*ReadSimgridXml(text, "a.xml"));
  ASSERT_FALSE(node.ok());  // hosts pass nothing on
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("no route connects a to c"));
}

}  // namespace simgrid_xml_test
}  // namespace twofold
