// One process of a run that a watch looks after: scenario RANK PROCESSES SILENCE [CARD]. Rank 0 prints "card CARD", by
// which the others find it. Each prints "begun" once the run has begun here, and "verdict CODE MESSAGE" once it has
// ended.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "backends/watch/watch.h"

namespace twofold::watch {
namespace {

int Main(int rank, int processes, double silence_s, const std::string& card) {
  Watch watch({.rank = rank,
               .processes = processes,
               .broadcast =
                   [&](std::string& bytes) {
                     if (rank != 0) return bytes = card, void();
                     std::printf("card %s\n", bytes.c_str());
                     std::fflush(stdout);
                   },
               .least_silence_s = silence_s});
  host::RunState run(processes, silence_s);
  watch.Begin(processes, silence_s, &run, [] {});
  std::printf("begun\n");
  std::fflush(stdout);
  const control::Verdict verdict = watch.AwaitVerdict();
  std::printf("verdict %d %s\n", verdict.code(), verdict.message().c_str());
  watch.HandIn("");
  watch.Conclude();
  return 0;
}

}  // namespace
}  // namespace twofold::watch

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return twofold::watch::Main(std::atoi(argv[1]), std::atoi(argv[2]), std::atof(argv[3]), argc > 4 ? argv[4] : "");
}
