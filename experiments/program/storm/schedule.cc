#include "experiments/program/storm/schedule.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/format.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::storm {
namespace {

std::string When(const spec::Fault& fault) {
  switch (fault.when_case()) {
    case spec::Fault::kStep: return StrCat("before the step after ", Counted(fault.step(), "step"));
    case spec::Fault::kAtS: return StrCat("at its first call after ", SecondsText(fault.at_s()));
    case spec::Fault::kCall:
      return StrCat("at its call ", fault.call(),
                    fault.generation() > 0 ? StrCat(" of generation ", fault.generation()) : std::string());
    case spec::Fault::kFileCall: return StrCat("at its file operation ", fault.file_call());
    case spec::Fault::WHEN_NOT_SET: break;
  }
  return "from the beginning";
}

std::string What(const spec::Fault& fault) {
  switch (fault.what_case()) {
    case spec::Fault::kLost:
      return fault.has_kept()
                 ? StrCat("is lost, and keeps ", ShareText(fault.kept()), " of what it had not flushed to its disk,")
                 : "is lost";
    case spec::Fault::kHangsS: return StrCat("hangs for ", SecondsText(fault.hangs_s()));
    case spec::Fault::kSlow:
      return StrCat("is slow by a factor of ", fault.slow().factor(),
                    fault.slow().has_for_s() ? StrCat(" for ", SecondsText(fault.slow().for_s())) : std::string());
    case spec::Fault::kLinkDown: {
      const spec::LinkDown& down = fault.link_down();
      return StrCat(
          "has its link down for ", SecondsText(down.for_s()),
          down.times() > 1 ? StrCat(", ", down.times(), " times, every ", SecondsText(down.every_s())) : std::string());
    }
    case spec::Fault::kDiskFull: return StrCat("has no disk space for ", Counted(fault.disk_full(), "operation"));
    case spec::Fault::kFailedReads: return StrCat("cannot read its files ", Counted(fault.failed_reads(), "time"));
    case spec::Fault::kDamage: {
      const int64_t file = fault.damage().file();
      return StrCat("has a bit changed at ", ShareText(fault.damage().at()), " of the last file that it wrote",
                    file > 0 ? StrCat(" but ", file) : std::string());
    }
    case spec::Fault::WHAT_NOT_SET: break;
  }
  return "does nothing unusual";
}

std::string TextOf(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  return text;
}

}  // namespace

void AddTo(const Schedule& schedule, spec::Spec& spec) {
  for (const Disaster& d : schedule.disasters()) {
    if (d.has_fault()) *spec.mutable_fabric()->mutable_simulated()->add_faults() = d.fault();
    if (d.has_link()) *spec.mutable_fabric()->mutable_simulated()->mutable_network()->add_faults() = d.link();
    if (d.has_members()) *spec.mutable_train()->mutable_elastic()->add_events() = d.members();
  }
}

std::string Describe(const Disaster& d) {
  if (d.has_members()) {
    const spec::MembershipEvent& event = d.members();
    return StrCat(Counted(event.join(), "new rank"), event.join() == 1 ? " comes " : " come ",
                  event.has_step() ? StrCat("after ", Counted(event.step(), "step"))
                                   : StrCat(SecondsText(event.at_s()), " after the run began"));
  }
  if (d.has_link()) {
    const spec::LinkFault& link = d.link();
    if (link.failed()) return StrCat("link ", link.link(), " has failed");
    return StrCat("link ", link.link(), " has ", ShareText(link.bandwidth()), " of its bandwidth and ",
                  SecondsText(link.latency_us() * 1e-6), " more latency");
  }
  return StrCat("rank ", d.fault().rank(), " ", What(d.fault()), " ", When(d.fault()));
}

std::string KindOf(const Disaster& d, double timeout_s) {
  if (d.has_members()) return "new rank";
  if (d.has_link()) return d.link().failed() ? "failed link" : "slow link";
  switch (d.fault().what_case()) {
    case spec::Fault::kLost:
      return d.fault().has_file_call()    ? "loss while files are written"
             : d.fault().generation() > 0 ? "loss in a later generation"
                                          : "loss";
    case spec::Fault::kHangsS: return d.fault().hangs_s() < timeout_s ? "short hang" : "hang";
    case spec::Fault::kSlow: return "slow rank";
    case spec::Fault::kDiskFull: return "full disk";
    case spec::Fault::kFailedReads: return "failed reads";
    case spec::Fault::kDamage: return "damaged file";
    default: return d.fault().link_down().times() > 1 ? "flapping link" : "link down";
  }
}

std::string Fragment(const Schedule& schedule) {
  spec::Spec only;
  AddTo(schedule, only);
  return TextOf(only);
}

std::string CaseText(const Schedule& schedule, const std::string& spec_file) {
  std::string text = StrCat("# A schedule of `twofold storm ", spec_file, "`, seed ", SeedText(schedule.seed()),
                            ". Replay it: twofold storm ", spec_file, " --replay=THIS_FILE\n");
  for (const Disaster& d : schedule.disasters()) StrAppend(&text, "#   ", Describe(d), "\n");
  StrAppend(&text, "# As a part of the spec:\n",
            absl::StrReplaceAll(StrCat("\n", Fragment(schedule)), {{"\n", "\n#   "}}).substr(1), "\n");
  return text + TextOf(schedule);
}

uint64_t SeedOf(uint64_t seed, int64_t number) { return MakeKey(seed, static_cast<uint64_t>(number)).value; }

std::string SeedText(uint64_t seed) { return absl::StrFormat("0x%016x", seed); }

absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  if (hex ? absl::SimpleHexAtoi(text, &seed) : absl::SimpleAtoi(text, &seed)) return seed;
  return InvalidArgument("\"", text, "\" is no seed; use a number such as 0x0123456789abcdef, as a storm prints it");
}

}  // namespace twofold::storm
