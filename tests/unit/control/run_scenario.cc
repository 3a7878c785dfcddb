// One process of a run that the control plane looks after: scenario RANK PROCESSES SILENCE [PORT]. Rank 0 prints "port
// PORT", by which the others find it. Each prints "begun" once the run has begun here, and "verdict CODE MESSAGE" once
// it has ended.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "backends/control/client.h"

namespace twofold::control {
namespace {

int Main(int rank, int processes, double silence_s, int port) {
  const Server::Options serves = {.size = processes,
                                  .bind = "127.0.0.1",
                                  .process = ThisProcessText(),
                                  .timeout_s = 60,
                                  .least_silence_s = silence_s,
                                  .token = "of this test"};
  std::unique_ptr<Server> server;
  if (rank == 0) {
    server = *Server::Listen(serves);
    port = server->port();
    std::printf("port %d\n", port);
    std::fflush(stdout);
  }
  const Client::Options options = {.rank = rank,
                                   .size = processes,
                                   .hosts = {"127.0.0.1"},
                                   .port = port,
                                   .timeout_s = 60,
                                   .token = "of this test",
                                   .least_silence_s = silence_s};
  auto joined = rank == 0 ? Client::Join(options, std::move(server)) : Client::Join(options);
  if (!joined.ok()) {
    std::printf("not joined: %s\n", std::string(joined.status().message()).c_str());
    return 1;
  }
  Client& client = **joined;
  host::RunState run(processes, silence_s);
  client.Begin(processes, silence_s, &run, [] {});
  std::printf("begun\n");
  std::fflush(stdout);
  const Verdict verdict = client.AwaitVerdict();
  std::printf("verdict %d %s\n", verdict.code(), verdict.message().c_str());
  client.HandIn("");
  client.Conclude();
  return 0;
}

}  // namespace
}  // namespace twofold::control

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return twofold::control::Main(std::atoi(argv[1]), std::atoi(argv[2]), std::atof(argv[3]),
                                argc > 4 ? std::atoi(argv[4]) : 0);
}
