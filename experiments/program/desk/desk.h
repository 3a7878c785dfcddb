// `twofold desk`: a server on this machine that shows the runs of a folder, and answers what-if questions.
//
// It listens on 127.0.0.1 alone, and answers only requests whose path begins with its token and that name this address,
// so that neither other users without the token nor other sites in the same browser can read runs. Paths:
//   /TOKEN/                    the list of runs, and the what-if page
//   /TOKEN/items               the list as JSON (shelf.h)
//   /TOKEN/report?dir=A&dir=B  the page of `twofold report A B`
//   /TOKEN/choices             models and clusters, as JSON
//   /TOKEN/what-if             POST {"base": path of a run, or "model": preset; "sets": {field: value}} (what_if.h)
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace twofold::desk {

struct DeskOptions {
  std::string folder = "runs";
  int port = 0;         // 0: any that is free
  std::string token;    // empty: a random one
  std::string program;  // predicts (experiments/program/predict/predictor.h)
};

class Desk {
 public:
  // Listens, and answers on threads of its own. INVALID_ARGUMENT: the folder is not there; UNAVAILABLE: the port is
  // taken.
  static absl::StatusOr<std::unique_ptr<Desk>> Open(const DeskOptions& options);
  virtual ~Desk() = default;                // stops
  virtual std::string address() const = 0;  // to open in a browser, token included
};

}  // namespace twofold::desk
