// Checks `fabric`: links that are slowed down, where ranks meet, and what single fabrics have. The simulated network is
// checked in validate_network.cc.
#include <string>
#include <string_view>
#include <utility>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

constexpr double kLongestTimeout = 1e9;  // seconds

// Slowed-down links. `path`: the fabric's.
template <class Links>
void CheckLinks(std::string_view path, const Links& links, Problems& problems) {
  const std::string rate = StrCat(path, ".link_gbps"), latency = StrCat(path, ".latency_us");
  if (problems.AtLeast(rate, links.link_gbps(), 0) && links.link_gbps() > 0 &&
      !(links.link_gbps() >= 1e-9 && links.link_gbps() <= 1e9)) {
    problems.Add(rate, NumberText(links.link_gbps()),
                 " is out of range; use 1e-9 to 1e9, or 0 for links at full speed");
  }
  if (links.latency_us() > 1e9) {
    problems.Add(latency, NumberText(links.latency_us()), " is out of range; use at most 1e9");
  } else if (problems.AtLeast(latency, links.latency_us(), 0) && links.latency_us() > 0 && links.link_gbps() == 0) {
    problems.Add(latency, NumberText(links.latency_us()), " only applies to links that are slowed down, but ", rate,
                 " = 0 leaves them at full speed; use a rate above 0, such as 10");
  }
}

void CheckSimulated(const spec::Simulated& simulated, Problems& problems) {
  if (simulated.cluster().empty()) {
    problems.Add("fabric.simulated.cluster",
                 "\"\" names no cluster; use \"this-machine\" or one of `twofold list clusters`");
  }
  if (simulated.has_nodes()) problems.Whole("fabric.simulated.nodes", simulated.nodes(), 1, 1 << 20);
}

void CheckRendezvous(const spec::Rendezvous& rendezvous, Problems& problems) {
  constexpr int kLastPort = 65535;
  if (rendezvous.has_port()) problems.Whole("fabric.rendezvous.port", rendezvous.port(), 1, kLastPort);
  if (problems.Above("fabric.rendezvous.timeout_s", rendezvous.timeout_s(), 0) &&
      rendezvous.timeout_s() > kLongestTimeout) {
    problems.Add("fabric.rendezvous.timeout_s", NumberText(rendezvous.timeout_s()),
                 " is out of range; use at most 1e9");
  }
  if (rendezvous.has_address() && rendezvous.address().empty()) {
    problems.Add("fabric.rendezvous.address",
                 "\"\" names no host; use that of rank 0, or leave it out to use what the launcher says");
  }
  if (rendezvous.has_bind() && rendezvous.bind().empty()) {
    problems.Add("fabric.rendezvous.bind",
                 "\"\" names no address; use one of rank 0's host (0.0.0.0: all), or leave it out to use "
                 "fabric.rendezvous.address");
  }
  if (!rendezvous.has_tls()) return;
  const spec::Tls& tls = rendezvous.tls();
  for (const auto& [name, file] :
       {std::pair("certificate", &tls.certificate()), {"key", &tls.key()}, {"authority", &tls.authority()}}) {
    if (file->empty()) problems.Add(StrCat("fabric.rendezvous.tls.", name), "\"\" names no file; use a PEM file");
  }
}

}  // namespace

void CheckFabric(const spec::Spec& spec, Problems& problems) {
  const spec::Fabric& fabric = spec.fabric();
  if (problems.Above("fabric.timeout_s", fabric.timeout_s(), 0) && fabric.timeout_s() > kLongestTimeout) {
    problems.Add("fabric.timeout_s", NumberText(fabric.timeout_s()), " is out of range; use at most 1e9");
  }
  if (fabric.has_simulated()) {
    CheckSimulated(fabric.simulated(), problems);
    CheckSimulatedNetwork(spec, problems);
    CheckLinks("fabric.simulated", fabric.simulated(), problems);
  }
  if (fabric.has_in_memory()) CheckLinks("fabric.in_memory", fabric.in_memory(), problems);
  CheckInMemoryStragglers(spec, problems);
  CheckSites(spec, problems);
  CheckRendezvous(fabric.rendezvous(), problems);
  if (fabric.has_nccl()) {
    constexpr int kMostCtas = 64;  // NCCL's own bound
    problems.Whole("fabric.nccl.max_ctas", fabric.nccl().max_ctas(), 0, kMostCtas);
    if (spec.device() != spec::CUDA) {
      problems.Add("device", spec::Device_Name(spec.device()),
                   " is not possible with fabric.nccl, which moves the memory of GPUs; use CUDA (--set=device=CUDA), "
                   "or fabric in_memory, mpi or gloo");
    }
  }
  if (fabric.mpi().gpu_buffers() != spec::Mpi::AUTO && spec.device() != spec::CUDA) {
    problems.Add("fabric.mpi.gpu_buffers", spec::Mpi::GpuBuffers_Name(fabric.mpi().gpu_buffers()),
                 " is only for device: CUDA, but device is ", spec::Device_Name(spec.device()),
                 "; set that, or leave it out");
  }
}

}  // namespace twofold
