// The parts of a topology's picture: layouts place boxes, wires and words; the picture draws them.
#pragma once

#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold::pictures {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  enum Kind { kDevice, kNic, kHost, kSwitch, kNode, kPanel };  // kPanel: a background, without an outline
  Kind kind = kSwitch;
  Point at;  // centre
  double w = 0, h = 0;
  std::string label, title;  // text inside it, and tooltip
  bool round = false;
};

struct Wire {
  std::string path;  // SVG path data
  Medium medium = Medium::kNetwork;
  BytesPerSecond bandwidth;  // each way
  std::string title;
  bool faint = false;  // one of very many
  double width = 1;    // in pixels; see SetWidths
};

struct Words {
  Point at;
  std::string text;
  const char* style = "soft";  // classes of the style sheet in style.h
};

struct Scene {
  double width = 0, height = 0;
  std::vector<Box> boxes;
  std::vector<Wire> wires;
  std::vector<Words> words;
  std::vector<std::string> notes;  // what is left out

  // A wire's width is its share of the widest wire of the scene, which has 5 pixels; narrower with more than
  // `comfortable` wires.
  void SetWidths(size_t comfortable);
  void Move(double dx, double dy);  // everything in it
  void Add(Scene other);            // places it beside the present content; sizes and notes are joined
};

// Path data: a straight line, and a curve drawn towards `control`.
std::string Line(Point a, Point b);
std::string Curve(Point a, Point control, Point b);

}  // namespace twofold::pictures
