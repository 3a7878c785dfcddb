// GOAL schedules, read again by a reader made from their grammar: as many messages and bytes as the simulated library's
// schedules have, both ends of each, as much work as the execution traces, and no cycle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/simulated/plan.h"
#include "experiments/program/report/chakra_files.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/goal_file.h"
#include "experiments/program/workload/chakra.h"
#include "sim/collectives/library.h"
#include "sim/places.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"
#include "topologies/graph/topology.h"

namespace twofold {
namespace goal_test {

using test::Resolve;
using test::RunResolved;
using ::testing::HasSubstr;

// ---- A reader of GOAL ----

struct Operation {
  enum Kind { kCalc, kSend, kRecv } kind;
  int64_t size = 0;  // ns, or bytes
  int peer = -1;
  int64_t tag = 0;
};
struct Block {
  std::vector<Operation> operations;
  std::map<std::string, int> labels;
  std::vector<std::pair<int, int>> requires_;  // the first begins when the second has ended
};

// A word that must be a whole number, of which `suffix` is the end.
int64_t Number(const std::string& word, const std::string& suffix = "") {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  EXPECT_TRUE(error == std::errc() && end + suffix.size() == word.data() + word.size() && word.ends_with(suffix))
      << word;
  return number;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : in_(text) {
    for (std::string line; std::getline(in_, line);) {
      if (!line.empty()) Line(line);
    }
    EXPECT_EQ(rank_, -1) << "a block is not closed";
    EXPECT_EQ(seen_, std::ssize(blocks));
  }
  std::vector<Block> blocks;  // by rank

 private:
  void Line(const std::string& line) {
    std::istringstream words(line);
    std::vector<std::string> w;
    for (std::string word; words >> word;) w.push_back(word);
    if (w[0] == "num_ranks") {
      blocks.resize(static_cast<size_t>(Number(w.at(1))));
    } else if (w[0] == "rank") {
      EXPECT_TRUE(rank_ == -1 && w.size() == 3 && w[2] == "{") << line;
      rank_ = static_cast<int>(Number(w.at(1))), ++seen_;
    } else if (w[0] == "}") {
      rank_ = -1;
    } else if (w[0].ends_with(":")) {
      Add(w, line);
    } else {
      ASSERT_TRUE(w.size() == 3 && w[1] == "requires") << line;
      const auto& labels = blocks[static_cast<size_t>(rank_)].labels;
      ASSERT_TRUE(labels.contains(w[0]) && labels.contains(w[2])) << line << ": a label that is not known yet";
      blocks[static_cast<size_t>(rank_)].requires_.emplace_back(labels.at(w[0]), labels.at(w[2]));
    }
  }
  // LABEL: calc N | LABEL: send Nb to R | LABEL: recv Nb from R, with "tag T" and "cpu C" behind it
  void Add(const std::vector<std::string>& w, const std::string& line) {
    Block& block = blocks[static_cast<size_t>(rank_)];
    const std::string label = w[0].substr(0, w[0].size() - 1);
    EXPECT_TRUE(std::isalpha(label[0])) << line;
    EXPECT_TRUE(block.labels.emplace(label, std::ssize(block.operations)).second) << line;
    Operation& op = block.operations.emplace_back();
    op.kind = w.at(1) == "calc" ? Operation::kCalc : w[1] == "send" ? Operation::kSend : Operation::kRecv;
    size_t next = 3;
    if (op.kind == Operation::kCalc) {
      op.size = Number(w.at(2));
    } else {
      EXPECT_TRUE(w[1] == "send" || w[1] == "recv") << line;
      op.size = Number(w.at(2), "b");
      EXPECT_EQ(w.at(3), op.kind == Operation::kSend ? "to" : "from") << line;
      op.peer = static_cast<int>(Number(w.at(4)));
      next = 5;
    }
    for (; next < w.size(); next += 2) {
      EXPECT_TRUE(w[next] == "tag" || w[next] == "cpu") << line;
      (w[next] == "tag" ? op.tag : cpu_) = Number(w.at(next + 1));
      EXPECT_LE(cpu_, 255) << line;
    }
  }
  std::istringstream in_;
  int rank_ = -1;
  int64_t seen_ = 0, cpu_ = 0;
};

// ---- What must be in it ----

struct Traffic {
  int64_t messages = 0, bytes = 0;
  bool operator==(const Traffic&) const = default;
};
void PrintTo(const Traffic& t, std::ostream* out) { *out << t.messages << " messages of " << t.bytes << " bytes"; }
using Pairs = std::map<std::pair<int, int>, Traffic>;  // by sender and receiver

// The collectives of each group, by rank in it, in order: those of one number are parts of one collective.
using Parts = std::vector<std::vector<const WorkloadNode*>>;
std::vector<Parts> CollectivesOf(const Workload& workload) {
  std::vector<Parts> of(workload.groups.size());
  for (size_t g = 0; g < of.size(); ++g) {
    for (const int rank : workload.groups[g].ranks) {
      auto& own = of[g].emplace_back();
      for (const WorkloadNode& node : workload.ranks[static_cast<size_t>(rank)])
        if (node.kind == WorkloadNode::kCollective && node.group == static_cast<int>(g)) own.push_back(&node);
      EXPECT_EQ(own.size(), of[g][0].size()) << workload.groups[g].name;
    }
  }
  return of;
}

std::vector<std::vector<double>> MatrixOf(const Parts& parts, size_t i) {
  std::vector<std::vector<double>> matrix;
  for (const auto& own : parts) matrix.emplace_back(own[i]->bytes_to.begin(), own[i]->bytes_to.end());
  return matrix;
}

double BytesOf(const WorkloadNode& node, size_t ranks) {
  const auto in = static_cast<double>(node.bytes);
  const bool gathers = node.operation == Communication::kAllGather || node.operation == Communication::kGather;
  return gathers ? in * static_cast<double>(ranks) : in;
}

void AddFlows(const sim::Schedule& schedule, const std::vector<int>& ranks, Pairs& all) {
  for (const sim::Phase& phase : schedule.phases) {
    for (const sim::Flow& flow : phase.flows) {
      Traffic& traffic = all[{ranks[static_cast<size_t>(flow.from)], ranks[static_cast<size_t>(flow.to)]}];
      ++traffic.messages, traffic.bytes += std::llround(flow.bytes);
    }
  }
}

// What the library's schedules send for the collectives and messages of the execution traces.
Pairs Expected(const Workload& workload, const SimulationPlan& plan) {
  Pairs all;
  const auto places = [&plan](const std::vector<int>& ranks) {
    std::vector<int> endpoints;
    for (const int r : ranks) endpoints.push_back(plan.endpoints.empty() ? r : plan.endpoints[static_cast<size_t>(r)]);
    return sim::PlacesOf(*plan.topology, endpoints);
  };
  for (size_t r = 0; r < workload.ranks.size(); ++r) {
    for (const WorkloadNode& node : workload.ranks[r]) {
      if (node.kind != WorkloadNode::kSend) continue;
      const std::vector<int>& ranks = workload.groups[static_cast<size_t>(node.group)].ranks;
      const sim::Places group = places(ranks);
      const std::vector<int> both = {static_cast<int>(r), ranks[static_cast<size_t>(node.peer)]};
      sim::Places pair = places(both);
      pair.group = &group;
      AddFlows(plan.library->Message(static_cast<double>(node.bytes), pair), both, all);
    }
  }
  const std::vector<Parts> collectives = CollectivesOf(workload);
  for (size_t g = 0; g < collectives.size(); ++g) {
    const std::vector<int>& ranks = workload.groups[g].ranks;
    for (size_t i = 0; i < collectives[g][0].size(); ++i) {
      const WorkloadNode& node = *collectives[g][0][i];
      sim::CollectiveShape shape{.kind = node.operation,
                                 .ranks = static_cast<int>(ranks.size()),
                                 .bytes = BytesOf(node, ranks.size()),
                                 .root = node.peer};
      if (node.operation == Communication::kAllToAllV) shape.matrix = MatrixOf(collectives[g], i);
      const auto schedule = plan.library->Plan(shape, places(ranks), plan.choice);
      EXPECT_TRUE(schedule.ok()) << schedule.status();
      if (!schedule.ok()) continue;
      AddFlows(*schedule, ranks, all);
      const bool empty = std::all_of(schedule->phases.begin(), schedule->phases.end(),
                                     [](const sim::Phase& phase) { return phase.flows.empty(); });
      if (node.operation != Communication::kBarrier || !empty) continue;
      for (size_t distance = 1; distance < ranks.size(); distance *= 2) {  // a barrier of which only the time is known
        for (size_t r = 0; r < ranks.size(); ++r) ++all[{ranks[r], ranks[(r + distance) % ranks.size()]}].messages;
      }
    }
  }
  return all;
}

// Every message has one send and one recv, which agree. Returns their sum.
Pairs Match(const std::vector<Block>& blocks) {
  std::map<std::tuple<int, int, int64_t>, std::vector<int64_t>> sends, recvs;  // bytes, by ends and tag
  Pairs all;
  for (int rank = 0; rank < std::ssize(blocks); ++rank) {
    for (const Operation& op : blocks[static_cast<size_t>(rank)].operations) {
      if (op.kind == Operation::kRecv) recvs[{op.peer, rank, op.tag}].push_back(op.size);
      if (op.kind != Operation::kSend) continue;
      sends[{rank, op.peer, op.tag}].push_back(op.size);
      Traffic& traffic = all[{rank, op.peer}];
      ++traffic.messages, traffic.bytes += op.size;
    }
  }
  EXPECT_EQ(sends, recvs);
  for (const auto& [key, sizes] : sends) EXPECT_EQ(sizes.size(), 1) << "tag " << std::get<2>(key) << " is not unique";
  return all;
}

// All operations can run: each after those that it requires, and a recv after its send.
int64_t ThatRun(const std::vector<Block>& blocks) {
  struct Place {
    std::vector<std::pair<int, int>> then;  // rank, operation
    int waits = 0;
  };
  std::vector<std::vector<Place>> places;
  std::map<std::tuple<int, int, int64_t>, std::pair<int, int>> sends;
  for (int r = 0; r < std::ssize(blocks); ++r) {
    const Block& block = blocks[static_cast<size_t>(r)];
    places.emplace_back(block.operations.size());
    for (const auto& [later, before] : block.requires_) {
      places.back()[static_cast<size_t>(before)].then.emplace_back(r, later);
      ++places.back()[static_cast<size_t>(later)].waits;
    }
    for (int i = 0; i < std::ssize(block.operations); ++i) {
      const Operation& op = block.operations[static_cast<size_t>(i)];
      if (op.kind == Operation::kSend) sends[{r, op.peer, op.tag}] = {r, i};
    }
  }
  for (int r = 0; r < std::ssize(blocks); ++r) {
    for (int i = 0; i < std::ssize(blocks[static_cast<size_t>(r)].operations); ++i) {
      const Operation& op = blocks[static_cast<size_t>(r)].operations[static_cast<size_t>(i)];
      if (op.kind != Operation::kRecv) continue;
      const auto [rank, send] = sends.at({op.peer, r, op.tag});
      places[static_cast<size_t>(rank)][static_cast<size_t>(send)].then.emplace_back(r, i);
      ++places[static_cast<size_t>(r)][static_cast<size_t>(i)].waits;
    }
  }
  std::deque<std::pair<int, int>> ready;
  for (int r = 0; r < std::ssize(places); ++r) {
    for (int i = 0; i < std::ssize(places[static_cast<size_t>(r)]); ++i)
      if (places[static_cast<size_t>(r)][static_cast<size_t>(i)].waits == 0) ready.emplace_back(r, i);
  }
  int64_t ran = 0;
  for (; !ready.empty(); ++ran) {
    const auto [r, i] = ready.front();
    ready.pop_front();
    for (const auto& [rank, next] : places[static_cast<size_t>(r)][static_cast<size_t>(i)].then)
      if (--places[static_cast<size_t>(rank)][static_cast<size_t>(next)].waits == 0) ready.emplace_back(rank, next);
  }
  return ran;
}

// ---- Jobs ----

constexpr char kGpt[] = "gpt { layers: 4 hidden: 256 heads: 4 vocab: 512 sequence: 64 }";
constexpr char kLlama[] = "llama { layers: 4 hidden: 256 heads: 8 kv_heads: 4 ffn: 512 vocab: 512 sequence: 64 }";
constexpr char kMoe[] = "moe { llama { layers: 4 hidden: 256 heads: 4 vocab: 512 sequence: 64 } experts: 8 top_k: 2 }";
constexpr char kDropless[] =
    "moe { llama { layers: 4 hidden: 256 heads: 4 vocab: 512 sequence: 64 } experts: 8 top_k: 2 dropless: true"
    " routing { zipf { exponent: 1.2 } } }";
constexpr char kIdeal[] = "star-h100", kNccl[] = "dgx-h100";

struct Job {
  const char *name, *model, *parallel, *cluster;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }
constexpr Job kJobs[] = {
    {"Ddp", kGpt, "dp: 8", kIdeal},
    {"Zero3", kGpt, "dp: 8 sharding: FULL_SHARD", kIdeal},
    {"Tp2", kLlama, "tp: 2 dp: 4 sequence_parallel: true", kIdeal},
    {"Pp4", kLlama, "pp: 4 dp: 2 sharding: ZERO_1", kIdeal},
    {"Cp4", kLlama, "cp: 4 dp: 2", kIdeal},
    {"Experts", kMoe, "ep: 4 dp: 8 sharding: ZERO_1", kIdeal},
    {"UnevenExperts", kDropless, "ep: 4 dp: 8 sharding: ZERO_1", kIdeal},
    {"OnNccl", kLlama, "tp: 2 pp: 2 dp: 4 sharding: ZERO_1", kNccl},
};

std::string SpecOf(const Job& job, const std::string& trace) {
  return StrCat("model { ", job.model,
                " }\ntrain { steps: 2 warmup_steps: 0 micro_batch: 1 global_batch: 16 }\nparallel { ", job.parallel,
                " }\ntrace { ", trace, " }\nfabric { simulated { cluster: \"", job.cluster,
                "\" folding: OFF noise: OFF } }\n");
}

// What rank 0 counted of its own calls: the report's figures.
void ExpectTheReportsCalls(const report::RankRecord& record, const Workload& workload) {
  std::map<std::pair<std::string, std::string>, Traffic> calls, reported;
  for (const WorkloadNode& node : workload.ranks[0]) {
    if (node.kind != WorkloadNode::kCollective) continue;
    const Workload::Group& group = workload.groups[static_cast<size_t>(node.group)];
    Traffic& own = calls[{std::string(KindName(node.operation)), group.name}];
    // of an uneven all-to-all, the report has the larger one of what the rank sends and receives
    const auto received = std::accumulate(node.bytes_from.begin(), node.bytes_from.end(), int64_t{0});
    ++own.messages, own.bytes += std::max<int64_t>(std::llround(BytesOf(node, group.ranks.size())), received);
  }
  for (const report::Collective& c : record.collectives()) {
    if (c.operation() == "send" || c.operation() == "recv" || c.operation() == "batch") continue;
    reported[{c.operation(), c.group()}] = {c.count(), c.bytes()};
  }
  EXPECT_EQ(calls, reported);
}

class Goal : public ::testing::TestWithParam<Job> {};

TEST_P(Goal, HasTheMessagesAndTheWorkOfTheRun) {
  const Job& job = GetParam();
  spec::Spec spec = Resolve(SpecOf(job, "execution_graph: true goal: true"));
  const RunResult result = RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto records = ReadRecords(spec, result);
  ASSERT_TRUE(records.ok()) << records.status();
  const std::string folder = test::ScratchFolder("goal");
  ASSERT_TRUE(WriteFiles(folder, ChakraFiles(*records, "job")).ok());
  const auto traces = ReadChakraFolder(folder);
  ASSERT_TRUE(traces.ok()) << traces.status();
  const auto plan = MakePlan(spec);
  ASSERT_TRUE(plan.ok()) << plan.status();

  const Reader goal(GoalSchedule(*records));
  ASSERT_EQ(goal.blocks.size(), records->size());
  EXPECT_EQ(Match(goal.blocks), Expected(traces->workload, *plan));
  ExpectTheReportsCalls((*records)[0].record, traces->workload);
  int64_t operations = 0;
  for (size_t r = 0; r < goal.blocks.size(); ++r) {
    double seconds = 0, ns = 0;
    for (const WorkloadNode& node : traces->workload.ranks[r]) seconds += node.seconds;
    for (const Operation& op : goal.blocks[r].operations) ns += op.kind == Operation::kCalc ? op.size : 0;
    EXPECT_NEAR(ns, seconds * 1e9, 4) << "rank " << r;
    EXPECT_GT(ns, 0);
    operations += std::ssize(goal.blocks[r].operations);
  }
  EXPECT_EQ(ThatRun(goal.blocks), operations) << "there is a cycle";
}

// A schedule is whole, or the run ends with an error that says what to do.
TEST(GoalLimit, ALargerScheduleEndsTheRun) {
  spec::Spec spec = Resolve(SpecOf(kJobs[0], "goal: true goal_mib: 0.5"));
  const absl::Status small = RunResolved(spec).status;
  EXPECT_THAT(std::string(small.message()), HasSubstr("larger than the 65536 bytes that trace.goal_mib leaves it"));

  spec.mutable_trace()->set_goal_mib(8);
  const RunResult result = RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto records = ReadRecords(spec, result);
  ASSERT_TRUE(records.ok()) << records.status();
  const std::string whole = GoalSchedule(*records);
  EXPECT_GT(whole.size(), size_t{1} << 19);  // what did not fit before
  EXPECT_EQ(Reader(whole).blocks.size(), 8u);
}

INSTANTIATE_TEST_SUITE_P(, Goal, ::testing::ValuesIn(kJobs), [](const auto& job) { return job.param.name; });

}  // namespace goal_test
}  // namespace twofold
