// Times MPI collectives one by one: the same source for Open MPI on the testbed and for SMPI (smpicxx -DSIMULATED).
//
//     collectives LEAST_BYTES MOST_BYTES REPETITIONS [OPERATION ...]
//
// Every call follows a barrier, and takes from when the last rank begins it (where one rank has what others wait for:
// from when that one does) until the last is done; hosts of the testbed share one clock. A loop of calls would measure
// how they overlap. Bytes are what `twofold bench` means: the whole tensor of a rank, for all_gather its output, for
// reduce_scatter its input. `message` is from rank 0 to the last. Sizes go in steps of 4. Prints
// operation,bytes,least,median,most,repetitions as CSV, in microseconds.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr long kLarge = 4 << 20;  // from here on fewer repetitions

#ifdef SIMULATED
double Now() { return MPI_Wtime(); }
#else
double Now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
#endif

struct Ranks {
  int rank, size;
};

#ifdef SIMULATED
// Open MPI's unsegmented broadcasts along trees, which SMPI lacks (as it does a reduce-scatter with a reduction of
// one's choice). `parent` of a rank above 0; children in ascending order.
void BroadcastAlong(int (*parent)(int), long bytes, Ranks me, char* data) {
  if (me.rank > 0)
    MPI_Recv(data, static_cast<int>(bytes), MPI_CHAR, parent(me.rank), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<MPI_Request> sends;
  for (int child = 1; child < me.size; ++child) {
    if (parent(child) == me.rank)
      MPI_Isend(data, static_cast<int>(bytes), MPI_CHAR, child, 1, MPI_COMM_WORLD, &sends.emplace_back());
  }
  MPI_Waitall(static_cast<int>(sends.size()), sends.data(), MPI_STATUSES_IGNORE);
}
int LinearParent(int) { return 0; }
int ChainParent(int v) { return v - 1; }
int PowerBelow(int v) { return v < 2 ? 1 : 2 * PowerBelow(v / 2); }
int BinomialParent(int v) { return v - PowerBelow(v); }
int KnomialParent(int v) { return v % 4 != 0 ? v / 4 * 4 : v / 16 * 16; }  // radix 4, to 64 ranks
int BinaryParent(int v) {
  const int above = PowerBelow(v + 1) / 2;
  return v - above >= 2 * above - 1 ? v - 2 * above : v - above;
}
#endif

// In place where `twofold` is: the all-reduce.
void Run(const std::string& operation, long bytes, Ranks me, char* in, char* out) {
  const int count = static_cast<int>(bytes / 4), block = count / me.size;
  const MPI_Comm world = MPI_COMM_WORLD;
  if (operation == "all_reduce")
    MPI_Allreduce(MPI_IN_PLACE, out, count, MPI_FLOAT, MPI_SUM, world);
  else if (operation == "all_gather")
    MPI_Allgather(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world);
  else if (operation == "reduce_scatter")
    MPI_Reduce_scatter_block(in, out, block, MPI_FLOAT, MPI_SUM, world);
  else if (operation == "all_to_all")
    MPI_Alltoall(in, block, MPI_FLOAT, out, block, MPI_FLOAT, world);
#ifdef SIMULATED
  else if (operation == "reduce_then_scatter") {
    MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, world);
    MPI_Scatter(out, block, MPI_FLOAT, in, block, MPI_FLOAT, 0, world);
  } else if (operation == "broadcast_linear")
    BroadcastAlong(LinearParent, bytes, me, out);
  else if (operation == "broadcast_chain")
    BroadcastAlong(ChainParent, bytes, me, out);
  else if (operation == "broadcast_binomial")
    BroadcastAlong(BinomialParent, bytes, me, out);
  else if (operation == "broadcast_binary")
    BroadcastAlong(BinaryParent, bytes, me, out);
  else if (operation == "broadcast_knomial")
    BroadcastAlong(KnomialParent, bytes, me, out);
#endif
  else if (operation == "broadcast")
    MPI_Bcast(out, count, MPI_FLOAT, 0, world);
  else if (operation == "message" && me.rank == 0)
    MPI_Send(in, static_cast<int>(bytes), MPI_CHAR, me.size - 1, 1, world);
  else if (operation == "message" && me.rank == me.size - 1)
    MPI_Recv(out, static_cast<int>(bytes), MPI_CHAR, 0, 1, world, MPI_STATUS_IGNORE);
  else if (operation == "exchange")
    MPI_Sendrecv(in, static_cast<int>(bytes), MPI_CHAR, (me.rank + 1) % me.size, 1, out, static_cast<int>(bytes),
                 MPI_CHAR, (me.rank + me.size - 1) % me.size, 1, world, MPI_STATUS_IGNORE);
}

double Greatest(double own) {
  double all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

double SecondsOfOne(const std::string& operation, long bytes, Ranks me, char* in, char* out) {
  const bool from_root = operation.starts_with("broadcast") || operation == "message";
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = Now();
  Run(operation, bytes, me, in, out);
  const double ended = Now();
  return Greatest(ended) - Greatest(from_root && me.rank != 0 ? 0 : begun);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Ranks me{};
  MPI_Comm_rank(MPI_COMM_WORLD, &me.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &me.size);
  if (argc < 4) {
    if (me.rank == 0) std::fprintf(stderr, "usage: collectives LEAST_BYTES MOST_BYTES REPETITIONS [OPERATION ...]\n");
    MPI_Finalize();
    return 2;
  }
  const long least = std::atol(argv[1]), most = std::atol(argv[2]);
  const int repetitions = std::max(1, std::atoi(argv[3]));
  std::vector<std::string> operations(argv + 4, argv + argc);
  if (operations.empty())
    operations = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "message"};
  std::vector<char> in(static_cast<size_t>(most)), out(static_cast<size_t>(most));
  if (me.rank == 0) std::printf("operation,bytes,least_us,median_us,most_us,repetitions\n");
  for (const std::string& operation : operations) {
    for (long bytes = least; bytes <= most; bytes *= 4) {
      const int count = bytes >= kLarge ? (repetitions + 1) / 2 : repetitions;
      std::vector<double> seconds;
      SecondsOfOne(operation, bytes, me, in.data(), out.data());  // first touch
      for (int i = 0; i < count; ++i) seconds.push_back(SecondsOfOne(operation, bytes, me, in.data(), out.data()));
      std::sort(seconds.begin(), seconds.end());
      if (me.rank != 0) continue;
      std::printf("%s,%ld,%.1f,%.1f,%.1f,%d\n", operation.c_str(), bytes, seconds.front() * 1e6,
                  seconds[seconds.size() / 2] * 1e6, seconds.back() * 1e6, count);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
}
