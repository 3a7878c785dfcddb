// Serves the control plane (plane.h) over gRPC, in the process of rank 0.
//
// Every process keeps one call open for as long as it takes part. A broken call means a lost process. Only processes
// that know the job's token are admitted; others are refused with a reason and disturb no one. Without TLS the token
// and all bytes are sent in clear text: the token keeps jobs apart, but does not keep attackers on the network out.
//
// Threads: gRPC's, and one that accepts connections (acceptor.h), call the desk (desk.h).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/control/desk.h"
#include "backends/control/tls.h"

namespace twofold::control {

class Server {
 public:
  struct Options {
    int size = 1;                 // ranks
    std::string bind;             // where to listen: a name or a numeric address of this host; "": every address
    int port = 0;                 // 0: any free port
    std::string place;            // where others look for it, for error messages: "node1:29500"; "": where it listens
    std::string process;          // this process: "process 4711 on node1"
    double timeout_s = 300;       // for all to come, and for each exchange
    double least_silence_s = 15;  // Plane::Options
    std::string token;            // the job's; "" is allowed only with this host's loopback address
    Tls tls = {};
  };
  // Listens. INVALID_ARGUMENT: no such host, not an address of this host, or an address that other hosts can reach
  // while there is no token, or a bad certificate; UNAVAILABLE: the port is in use; FAILED_PRECONDITION: this process
  // may not open enough files (the soft limit is raised, the hard one is not); UNIMPLEMENTED: this build has no gRPC.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const Options& options);
  // Tells all that it ends, and waits for them to leave, but not for long.
  virtual ~Server() = default;

  virtual const std::shared_ptr<Desk>& desk() const = 0;
  virtual std::string bind() const = 0;  // numeric; where it listens
  virtual int port() const = 0;
};

}  // namespace twofold::control
