#include "topologies/import/smi_matrix.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/import/files.h"
#include "topologies/import/nccl_xml.h"
#include "topologies/import/node_file.h"

namespace twofold {
namespace smi_matrix_test {

using test::RateBetween;
using test::ReadTopologyFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WithoutEscapes(std::string text) {
  for (const std::string code : {"\x1b[4m", "\x1b[0m"}) {
    if (const size_t at = text.find(code); at != std::string::npos) text.erase(at, code.size());
  }
  return text;
}

// As nvidia-smi prints it, but for the underline of the head.
TEST(SmiMatrix, GivesBackWhatItRead) {
  for (const char* file : {"dgx-h100.smi.txt", "pcie-4.smi.txt", "dgx-1v.smi.txt"}) {
    const std::string text = ReadTopologyFile(file);
    const auto matrix = ReadSmiMatrix(text, file);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(WriteSmiMatrix(*matrix), WithoutEscapes(text)) << file;
    EXPECT_EQ(*ReadSmiMatrix(WriteSmiMatrix(*matrix), "again"), *matrix);
  }
}

TEST(SmiMatrix, BlanksPartColumnsAsWellAsTabs) {
  const auto matrix = ReadSmiMatrix(
      "$ nvidia-smi topo -m\n        GPU0    GPU1    CPU Affinity    NUMA Affinity\r\nGPU0     X      NV4     0-7  "
      "0\nGPU1    NV4      X      8-15 1\n",
      "a");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_THAT(matrix->before, ElementsAre("$ nvidia-smi topo -m"));
  EXPECT_THAT(matrix->affinity_columns, ElementsAre("CPU Affinity", "NUMA Affinity"));
  EXPECT_THAT(matrix->rows[1].affinities, ElementsAre("8-15", "1"));
  EXPECT_EQ(*ReadSmiMatrix(WriteSmiMatrix(*matrix), "again"), *matrix);
}

ImportedNode Import(const std::string& file) {
  auto node = ReadImportedNode(ReadTopologyFile(file), file);
  EXPECT_TRUE(node.ok()) << node.status();
  return *std::move(node);
}

TEST(SmiNode, EightGpusOnNvswitches) {
  const ImportedNode imported = Import("dgx-h100.smi.txt");
  const NodeType& node = imported.node;
  EXPECT_EQ(node.kind, "nvswitch");
  EXPECT_EQ(node.devices.size(), 8u);
  EXPECT_EQ(node.nics.size(), 10u);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "gpu0", "nvswitch", Medium::kNvlink), 450);
  EXPECT_DOUBLE_EQ(RateBetween(node.graph, "numa0", "numa1", Medium::kMemory), 22);
  EXPECT_EQ(node.graph.vertices[static_cast<size_t>(node.nics[9])].name, "nic mlx5_11");
  // The same NICs as by NCCL's file of the same machine, in nvidia-smi's order.
  EXPECT_THAT(node.nic_of, ElementsAre(0, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(imported.notes, ElementsAre(HasSubstr("assumed, in GB/s each way: 25 per NVLink, 25 per PCIe link"),
                                          HasSubstr("NVSwitch")));
}

TEST(SmiNode, FourGpusOnPcie) {
  const NodeType node = Import("pcie-4.smi.txt").node;
  EXPECT_EQ(node.kind, "pcie_tree");
  EXPECT_EQ(node.devices.size(), 4u);
  EXPECT_THAT(node.nic_of, ElementsAre(0, 0, 1, 1));
  const auto topology = MakeGraphTopology("node", node.graph, node.devices);
  std::vector<int> route;
  topology->Route({0, 1}, 0, route);
  EXPECT_EQ(route.size(), 2u);
  topology->Route({0, 3}, 0, route);
  EXPECT_EQ(route.size(), 5u);
}

TEST(SmiNode, CubeMeshHasTheLinksOfNcclsFile) {
  const NodeType smi = Import("dgx-1v.smi.txt").node, nccl = Import("dgx-1v.nccl.xml").node;
  EXPECT_EQ(smi.kind, "nvlink");
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      const std::string from = "gpu" + std::to_string(a), to = "gpu" + std::to_string(b);
      if (a == b) continue;
      EXPECT_DOUBLE_EQ(RateBetween(smi.graph, from, to, Medium::kNvlink),
                       RateBetween(nccl.graph, from, to, Medium::kNvlink))
          << from << to;
    }
  }
  EXPECT_EQ(smi.nic_of, nccl.nic_of);
}

// What `nvidia-smi -L` prints above the matrix names the GPUs, whose links have known rates.
TEST(SmiNode, TheGpusNameGivesTheRates) {
  const auto named = [](const std::string& gpus) { return gpus + ReadTopologyFile("pcie-4.smi.txt"); };
  const auto line = [](int i, const std::string& name) {
    return "GPU " + std::to_string(i) + ": " + name + " (UUID: GPU-5b1c3c1e-0000-0000-0000-000000000000)\n";
  };
  const auto rate = [](const ImportedNode& imported) {
    return RateBetween(imported.node.graph, "gpu0", "pci root0", Medium::kPcie);
  };
  const ImportedNode h100 = *ReadImportedNode(named(line(0, "NVIDIA H100 PCIe") + line(1, "NVIDIA H100 PCIe")), "a");
  EXPECT_EQ(h100.gpu, "NVIDIA H100 PCIe");
  EXPECT_DOUBLE_EQ(rate(h100), 50);
  EXPECT_THAT(h100.notes,
              ElementsAre(HasSubstr("for NVIDIA H100 PCIe assumed, in GB/s each way: 25 per NVLink, 50 per")));
  EXPECT_DOUBLE_EQ(rate(*ReadImportedNode(named(line(0, "Tesla V100-SXM2-16GB")), "a")), 12.5);
  EXPECT_DOUBLE_EQ(rate(*ReadImportedNode(named(""), "a")), 25) << "A100's";
  const ImportedNode unknown = *ReadImportedNode(named(line(0, "NVIDIA Z9")), "a");
  EXPECT_DOUBLE_EQ(rate(unknown), 25);
  EXPECT_EQ(unknown.gpu, "NVIDIA Z9");
  const ImportedNode mixed = *ReadImportedNode(named(line(0, "NVIDIA L40S") + line(1, "NVIDIA B200")), "a");
  EXPECT_THAT(mixed.notes[1], HasSubstr("the GPUs differ: NVIDIA L40S, NVIDIA B200; all are taken for the first"));
  EXPECT_DOUBLE_EQ(rate(*ReadImportedNode(named(line(0, "NVIDIA B200")), "a", {.pcie = BytesPerSecond(40e9)})), 40)
      << "what the caller says goes before the name";
  const auto blackwell =
      ReadSmiMatrix(line(0, "NVIDIA B200") + "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n", "a");
  ASSERT_TRUE(blackwell.ok()) << blackwell.status();
  EXPECT_DOUBLE_EQ(RateBetween(NodeOf(*blackwell)->node.graph, "gpu0", "gpu1", Medium::kNvlink), 900);
  EXPECT_EQ(*ReadSmiMatrix(WriteSmiMatrix(*blackwell), "again"), *blackwell);
}

TEST(SmiNode, AssumptionsAreTheCallers) {
  const auto matrix = ReadSmiMatrix("\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n", "a");
  const ImportedNode node = *NodeOf(*matrix, {.nvlink = BytesPerSecond(50e9)});
  EXPECT_DOUBLE_EQ(RateBetween(node.node.graph, "gpu0", "gpu1", Medium::kNvlink),
                   900);  // 18 links: a GPU may have them
}

TEST(SmiMatrix, BadFilesAreRefusedByLineRowAndColumn) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a: no line begins with GPU0"},
      {"hello\nworld\n", "a: no line begins with GPU0"},
      {"\tGPU0\tGPU1\nGPU0\tX\tNV1\n", "a:2: the text ends before the row of GPU1"},
      {"\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU2\tNV1\tX\n", "a:3: expected row GPU1 (got \"GPU2\")"},
      {"\tGPU0\tGPU1\nGPU0\tX\n", "a:2: row GPU0 must have 2 relations, one per column (got 1)"},
      {"\tGPU0\tGPU1\nGPU0\tX\tNVX\nGPU1\tNVX\tX\n",
       "a:2: row GPU0, column GPU1: \"NVX\": must be X, NV with a number"},
      {"\tGPU0\tGPU1\nGPU0\tX\tX\nGPU1\tX\tX\n", "X must be on the diagonal"},
      {"\tGPU0\tGPU1\nGPU0\tX\tNV1\nGPU1\tNV2\tX\n", "GPU1 is NV2 to GPU0, but GPU0 is NV1 to GPU1"},
      {"\tGPU0\tGPU0\nGPU0\tX\tNV1\n", "a:1: two columns have the same name"},
      {"\tGPU0\tCPU Affinity\tShoe size\nGPU0\tX\t0-3\n", "a:1: \"Shoe size\": only CPU Affinity"},
      {"\tGPU0\tCPU Affinity\nGPU0\tX\t0-3\t0\n",
       "a:2: row GPU0 ends in \"0\": it has more affinities than there are columns"},
  };
  for (const auto& [text, message] : cases) {
    const auto matrix = ReadSmiMatrix(text, "a");
    ASSERT_FALSE(matrix.ok()) << text;
    EXPECT_THAT(std::string(matrix.status().message()), HasSubstr(message)) << text;
  }
  EXPECT_FALSE(ReadSmiMatrix(std::string("\tGPU0\0", 6), "a").ok());
}

TEST(SmiNode, AMatrixMustNotContradictItself) {
  const auto matrix =
      ReadSmiMatrix("\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tSYS\nGPU1\tPIX\tX\tPIX\nGPU2\tSYS\tPIX\tX\n", "a");
  ASSERT_TRUE(matrix.ok());
  const auto node = NodeOf(*matrix);
  ASSERT_FALSE(node.ok());
  EXPECT_THAT(std::string(node.status().message()),
              HasSubstr("a: GPU0 and GPU2 are SYS, but the other relations imply PIX"));
}

}  // namespace smi_matrix_test
}  // namespace twofold
