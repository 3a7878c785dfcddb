// The machine's load while ranks were at work, from the ranks' use of its processors.
//
// A rank that is ready and gets no processor is held up; since ranks meet in every step, it holds up all others too.
// Without other work, a job of `wall` seconds would thus have taken at least wall - held, where
//   held = min(what all ranks' threads waited, wall - what the busiest rank computed, what other work ran).
// The second and third terms are there because ranks wait for each other's threads too, and because other work holds
// nobody up for longer than it runs itself. A hypervisor takes its share in addition. So 1 / (1 - taken) is the most by
// which other work can have slowed the job.
#pragma once

#include <span>
#include <string>

#include "core/proto/report.pb.h"

namespace twofold {

inline constexpr double kLoaded = 0.05;     // above this share taken, readers are told
inline constexpr double kMostTaken = 0.99;  // counters are not exact

// Of `ranks` that worked at the same time, on one machine or several. Has no fields if no rank has counters.
report::Load LoadOf(std::span<const report::ProcessorUse> ranks);

double Taken(double held_share, double stolen);  // both combined, at most kMostTaken

// "other work kept 1.9 processors busy and delayed it by up to 43 % of the time"; with stolen time, if it is visible.
std::string LoadText(const report::Load& load);

}  // namespace twofold
