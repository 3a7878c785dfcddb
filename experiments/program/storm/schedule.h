// A schedule of disasters: what goes wrong in one run, and when.
//
// Everything that is random about a schedule follows from its seed, the number that a storm prints and replays. A
// schedule that was made smaller keeps the seed of the one that it was made from.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/proto/storm.pb.h"

namespace twofold::storm {

// Adds them to a resolved spec of fabric simulated, whose own faults and events stay.
void AddTo(const Schedule& schedule, spec::Spec& spec);
// "rank 3 is lost at its call 17"; without an end of line.
std::string Describe(const Disaster& disaster);
// Its kind, as summaries count it: "loss", "loss in a later generation", "hang", "short hang", "slow rank",
// "link down", "flapping link", "new rank", "failed link", "slow link", "loss while files are written", "full disk",
// "failed reads", "damaged file". `timeout_s`: fabric.timeout_s.
std::string KindOf(const Disaster& disaster, double timeout_s);
// What to add to the spec, as text that a spec can hold.
std::string Fragment(const Schedule& schedule);
// The text of a file that --replay reads: the schedule, with comments that say how to replay it.
std::string CaseText(const Schedule& schedule, const std::string& spec_file);

// The seed of schedule `number` of the storm with `seed`.
uint64_t SeedOf(uint64_t seed, int64_t number);
// "0x0123456789abcdef", and back; decimal numbers are read, too.
std::string SeedText(uint64_t seed);
absl::StatusOr<uint64_t> ParseSeed(const std::string& text);

}  // namespace twofold::storm
