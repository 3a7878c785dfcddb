#include "experiments/program/cli/note_names.h"

namespace twofold {
namespace {

struct Kind {
  std::string_view name;
  // That only notes of this kind have; the first kind whose text a note has counts. Part of one string of the source:
  // note_names_test finds it there.
  std::string_view text;
};

constexpr Kind kKinds[] = {
    // How the figures came about
    {"loaded-calibration", "the machine was loaded during calibration"},
    {"loaded-run", "the machine was loaded during this run"},
    {"loaded-sweep", "other work on this machine delayed measurements"},
    {"loaded-messages", "were measured, other work delayed them"},
    {"few-steps", "low and high are percentiles of only"},
    {"warm-up-only", "the run ended within its"},
    {"counted-steps", "exactly: counted, not simulated"},
    {"folded-ranks", "ranks are folded"},
    {"folded-ranks", "folded ranks "},
    {"sampled-phases", "phases, drawn at random"},
    {"fewer-paths", "where very many messages begin together"},
    {"not-folded", "ranks were not folded"},
    {"stand-in-losses", ": no arithmetic was done"},
    {"stand-in-overflows", "no gradients were computed, so none overflowed"},
    {"stand-in-stop", "no losses were computed, so the run did not stop early"},
    {"stopped-early", "stopped early, after "},
    {"imported", "imported from "},
    {"imported", "no launches are recorded, so steps are taken"},
    {"imported", "annotated step"},
    {"imported", "memory is what PyTorch's allocator gave out"},
    {"imported", "kernels ran beside others for "},
    {"replayed", "replayed from the execution traces"},
    {"replayed", "devices are taken for alike"},
    {"replayed", " added: nodes of a device's stream"},
    {"replayed", " of collectives without a comm_type"},
    {"replayed", " of work without a duration"},
    {"clocks", "the clocks of the ranks are more than a minute apart"},
    // Costs
    {"kernel-times", "kernel times: "},
    {"calibration", "calibration: "},
    {"assumed-kernels", "kernel times come from a data sheet or are assumed"},
    {"extrapolated-kernel", "is extrapolated beyond what was calibrated"},
    {"training-rate", "the rate that products sustain in training is assumed"},
    {"fp8-products", "products in FP8 take the time"},
    {"in-training", "in training, kernels take "},
    {"emulated-times", "device EMULATED: operations take the time"},
    {"measured-collectives", "when nothing else uses the links, "},
    {"assumed-links", "links between ranks are assumed"},
    {"throttled-links", "links are throttled to "},
    {"measured-links", "links are those that the profile measured"},
    {"sites", "ranks are divided among "},
    {"sites", "between a site's NICs and its wide-area link"},
    {"shared-cores", "communication threads share cores with compute threads"},
    {"shared-cores", " threads compute on "},
    {"contention", "what computes beside communication takes longer"},
    {"copied-rings", "tp_overlap: parts within a node are copied"},
    {"profile-threads", "the profile's kernels ran on "},
    {"profile-collectives", "the profile's collectives"},
    {"profile-options", "cuda.time_algorithms is "},
    {"graphs", "cuda.graphs: "},
    {"profile-options", "cuda.attention is "},
    {"profile-options", "cuda.attention_workspace_mib is "},
    {"profile-options", "cuda.fp8 is "},
    {"own-kernels", "own kernels ("},
    {"hopper-kernel", "the Hopper kernel"},
    {"hopper-kernel", "cuda.attention: HOPPER is predicted"},
    {"fp8-widened", "FP8 products: our own kernels widen codes"},
    {"fp8-kernels", "cuBLASLt's kernels"},
    {"framework-memory", "the framework's memory could not be predicted"},
    {"device-spread", "devices differ in speed by "},
    {"storage", " to write files at "},
    {"host-link", "exposed communication includes waits for transfers to and from the host"},
    {"host-waits", "the host waits for the device only where it reads the loss"},
    {"staged-communication", "communication is staged"},
    {"cluster", "predicted for "},
    // Networks
    {"link-loads", "loads of links "},
    {"degraded-network", "the network is degraded"},
    {"degraded-network", "because the network was not degraded"},
    {"degraded-network", "background traffic takes "},
    {"degraded-network", "the latency of each network link is multiplied"},
    {"placement", "ranks are placed "},
    {"solver", "solver: "},
    {"fault", "fabric.simulated.faults["},
    {"slow-rank", "'s operations take "},
    {"slow-rank", "fabric.in_memory.stragglers"},
    {"rendezvous", "; rendezvous: "},
    {"nccl", "NCCL"},
    {"gpu-memory", "outside_ledger_bytes"},
    // Checkpoints, elastic runs
    {"resumed", "resumed from "},
    {"passed-over-checkpoint", "skipped an unusable checkpoint"},
    {"passed-over-checkpoint", "checkpoint passed over"},
    {"changed-since-checkpoint", "when the checkpoint was saved"},
    {"changed-since-checkpoint", "the checkpoint has parameters in "},
    {"checkpoint-of-compression", "what compression"},
    {"checkpoint-of-compression", "compression begins without "},
    {"checkpoint-of-compression", "compression's factors begin anew"},
    {"symbolic-checkpoint", "no checkpoint was written"},
    {"symbolic-checkpoint", "checkpoints have the sizes of real ones"},
    {"not-from-peers", " did not go on from peers"},
    {"idle-option", "train.elastic: this fabric survives no lost rank"},
    {"idle-option", "train.checkpoint.on_signal: no signal reaches"},
    {"idle-option", "has no effect"},
    {"outer-steps", "outer step"},
    {"outer-steps", "outer gradients"},
    {"outer-steps", "fragments meet at different times"},
    {"skipped-steps", "skipped"},
    {"no-time-line", "its timeline was left out"},
    {"does-not-fit", "memory.assume_fits: it does not fit"},
    {"memory-by-tensor", "memory by tensor was left out"},
    // Comparisons
    {"different-work", "the two runs did different work"},
    {"different-work", "the runs are of "},
    {"different-clusters", "the first run is of cluster "},
    {"different-memory", "peak or reserved bytes differ"},
    {"kept-runs", "of an earlier sweep in "},
    {"trace", "trace"},
    {"routing", "routing is "},
    {"assumed-routing", "routing"},
};

}  // namespace

std::string_view NoteName(std::string_view note) {
  for (const Kind& kind : kKinds) {
    if (note.find(kind.text) != note.npos) return kind.name;
  }
  return kOtherNote;
}

std::vector<std::string> NoteNames(const std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const std::string& note : notes) names.emplace_back(NoteName(note));
  return names;
}

}  // namespace twofold
