// How loaded the machine was while ranks were at work: from what they had of its processors.
//
// A rank that is ready and gets no processor holds up itself, and where ranks meet in every step all others, too. Without other work a job
// of `wall` seconds would thus have taken no less than wall - held, where
//   held = min(what all ranks' threads waited, wall - what the busiest rank computed, what other work ran),
// since ranks wait for each other's threads, too, and other work holds nobody up for longer than it runs itself. A hypervisor takes its
// share on top. So 1 / (1 - taken) is the most by which other work can have made the job slower.
#pragma once

#include <span>
#include <string>

#include "core/proto/report.pb.h"

namespace twofold {

inline constexpr double kLoaded = 0.05;       // taken: from here on readers are told
inline constexpr double kMostTaken = 0.99;    // counters are not exact

// `ranks` that worked at the same time, of one machine or several. Without fields where none of them knows.
report::Load LoadOf(std::span<const report::ProcessorUse> ranks);

double Taken(double held_share, double stolen);  // both together, kMostTaken at most

// "other work kept 1.9 processors busy and held it up for up to 43 % of the time"; with what was stolen, where that can be seen.
std::string LoadText(const report::Load& load);

}  // namespace twofold
