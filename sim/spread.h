// How far ranks that do the same are apart, and when the slowest of them comes: closed forms instead of draws.
//
// Devices of one type differ in speed: chips differ, and so do their power limits and temperatures (Sinha et al., "Not
// All GPUs Are Created Equal", SC 2022). A rank stands for all ranks of its class, and its times are those of the mean
// device. What it computes takes the ranks of the class times that are normally distributed around its own, with a
// standard deviation that grows with the work done. Whoever meets n of them waits for the slowest:
//
//   E max(X_1 ... X_n) = mean + sd * E max(Z_1 ... Z_n),   Z standard normal
//
// A slow device is slow in every step, so standard deviations of successive work add up (squares would, if each
// kernel were slow at random). Ranks of different classes may meet: the maximum of normals with different means and
// deviations is again taken as normal, with the first two moments of Clark (1961), "The Greatest of a Finite Set of
// Random Variables", Operations Research 9(2), equations 2 and 3.
//
// Assumes: ranks are independent of each other. Ignores: devices that are broken or throttled (fabric.simulated.
// stragglers has those), spread of messages' times.
#pragma once

#include <cstdint>
#include <vector>

namespace twofold::sim {

// Of the maximum of n independent standard normals.
struct NormalMaximum {
  double mean, deviation;
};
NormalMaximum MaximumOf(int64_t n);  // n >= 1; by quadrature, to 1e-6; remembered

// Where ranks of one class are, around the time of the rank that stands for them; in seconds.
struct Spread {
  double own = 0;      // standard deviation among ranks that met last
  double shared = 0;   // among the groups in which they met last: all ranks of such a group have it in common
  uint64_t group = 0;  // the group in which they met; 0: none
  double slowest = 0;  // by how many deviations the slowest of the ranks that met last was late; 0: none has met

  bool operator==(const Spread&) const = default;
  // Among ranks that meet in `group`.
  double Within(uint64_t in) const { return in == group ? own : own + shared; }
};

// `count` ranks arrive at `mean`, with a standard deviation.
struct Arriving {
  double mean, deviation;
  int64_t count;
};
// When the last of all arrives. Arrivals of equal mean and deviation (to 1e-9 of the largest deviation, or the rounding
// of times) count as one class. Clark's formulas depend on who is taken with whom first, so what decides this must not
// change as the clock goes on.
Arriving LastOf(std::vector<Arriving> all);

// Once ranks with the spread `before` have met in `group`, at the time of the slowest. `slowest`: the moments of the
// slowest one's lateness, in deviations.
Spread AfterMeeting(const Spread& before, double deviation, const NormalMaximum& slowest, uint64_t group,
                    bool everyone);

// Of two things that must both have come, the one with the spread `before` comes so many seconds before the one with
// the spread `until`, for the average rank: a stream that waits for a point, or a point that a stream need not wait
// for. The slowest waits for less: it stays late by what its lateness was longer. That is exact for the slowest rank of
// until's group, whose lateness is what the next meeting waits for. One that has met nobody (a host) has no `slowest`:
// that of the other holds.
Spread AfterWaiting(const Spread& before, double seconds, const Spread& until);

}  // namespace twofold::sim
