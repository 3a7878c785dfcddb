// The graphs that ranks left (trace.execution_graph) as files of MLCommons' Chakra, schema 1.0.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/report/files.h"
#include "experiments/program/report/rank_records.h"

namespace twofold {

inline constexpr char kChakraFolder[] = "chakra", kChakraGroups[] = "groups.json";

// "rank.<r>.et" for each rank that left a graph, and kChakraGroups: the ranks of each process group by number, as the
// nodes' pg_name gives it. Empty: no rank left one.
std::vector<NamedText> ChakraFiles(const RankRecords& records, const std::string& job);
std::string ChakraFileOf(int64_t rank);  // "rank.3.et"

}  // namespace twofold
