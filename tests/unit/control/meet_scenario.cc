// One process of a run that only meets the others: scenario WHAT [RENDEZVOUS], the latter fields of spec.Rendezvous.
// Prints
//   met RANK of SIZE, here LOCAL_RANK of LOCAL_SIZE, by HOW / gathered BYTES,BYTES... / broadcast BYTES / error CODE
//   MESSAGE
// WHAT: meet, and exchange bytes; go: end once met; die, stop: be killed, or stopped, once met; stay: exchange, and
// live on for a second after that, even if the store has gone; come: be let in and be killed then.
#include <google/protobuf/text_format.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "absl/strings/str_join.h"
#include "backends/bootstrap/bootstrap.h"
#include "backends/control/address.h"
#include "backends/control/client.h"
#include "backends/control/control.grpc.pb.h"
#include "backends/control/grpc_settings.h"
#include "backends/launch/launch.h"
#include "core/base/machine.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

int Say(const absl::Status& status) {
  std::printf("error %d %s\n", static_cast<int>(status.code()), std::string(status.message()).c_str());
  return 1;
}

// Without rank 0's help, since it is to die between having been let in and all having come.
void ComeAndDie() {
  const Launch launch = LaunchedAs();
  const auto channel =
      grpc::CreateChannel(control::Resolve(launch.master_address, launch.master_port)->front().Target(),
                          grpc::InsecureChannelCredentials());
  channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stub = control::Control::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata(control::kTokenName, launch.token);
  const auto call = stub->Attend(&context);
  control::ToHub message;
  control::Hello& hello = *message.mutable_hello();
  hello.set_version(control::kVersion);
  hello.set_rank(launch.rank);
  hello.set_size(launch.size);
  hello.set_host(HostName());
  hello.set_process(getpid());
  hello.set_patience_s(1000);
  call->Write(message);
  control::FromHub answer;
  if (call->Read(&answer)) kill(getpid(), SIGKILL);
}

int Main(const std::string& what, const std::string& rendezvous) {
  if (what == "come") return ComeAndDie(), 2;
  spec::Spec spec;
  if (!google::protobuf::TextFormat::ParseFromString(rendezvous, spec.mutable_fabric()->mutable_rendezvous())) return 2;
  auto made = Meet(spec);
  if (!made.ok()) return Say(made.status());
  std::unique_ptr<control::Client> client = *std::move(made);
  const int rank = client->rank();
  std::printf("met %d of %d, here %d of %d, by %s\n", rank, client->size(), client->local_rank(), client->local_size(),
              client->options().described.c_str());
  std::fflush(stdout);
  if (what == "go") return 0;
  if (what == "die") kill(getpid(), SIGKILL);
  if (what == "stop") kill(getpid(), SIGSTOP);
  const auto all = client->AllGather(StrCat("of ", rank));
  if (!all.ok()) return Say(all.status());
  std::printf("gathered %s\n", absl::StrJoin(*all, ",").c_str());
  const auto one = client->Broadcast(StrCat("by ", rank));
  if (!one.ok()) return Say(one.status());
  std::printf("broadcast %s\n", one->c_str());
  if (what == "stay" && rank != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::printf("still here\n");
  }
  return 0;
}

}  // namespace
}  // namespace twofold

int main(int argc, char** argv) { return twofold::Main(argc > 1 ? argv[1] : "meet", argc > 2 ? argv[2] : ""); }
