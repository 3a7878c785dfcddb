// What layouts of networks have in common: places on a circle, a choice of a few things, and the box or the wire of
// one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/program/pictures/contracted.h"
#include "experiments/program/pictures/topology_scene.h"

namespace twofold::pictures {

Point OnCircle(Point centre, double radius, double turns);  // turns count from the top, clockwise
Point Between(Point a, Point b, double share);

// `most` elements of `from`, evenly spaced, including the first.
std::vector<int> Spread(const std::vector<int>& from, size_t most);

// A box for a thing and a wire for a bundle, with their tooltips.
Box BoxOf(const Thing& thing, Point at, double w, double h, std::string label);
Wire WireOf(const Contracted& net, const Bundle& bundle, std::string path);

}  // namespace twofold::pictures
