// What the parts of a topology's picture are made of: layouts place boxes, wires and words; the picture draws them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold::pictures {

struct Point { double x = 0, y = 0; };

struct Box {
  enum Kind { kDevice, kNic, kHost, kSwitch, kNode, kPanel };  // kPanel: a background, without an outline
  Kind kind = kSwitch;
  Point at;                // its centre
  double w = 0, h = 0;
  std::string label, title;  // within it, and when pointed at
  bool round = false;
};

struct Wire {
  std::string path;         // SVG path data
  Medium medium = Medium::kNetwork;
  BytesPerSecond bandwidth; // each way
  std::string title;
  bool faint = false;       // one of very many
  double width = 1;         // in pixels; see SetWidths
};

struct Words {
  Point at;
  std::string text;
  const char* style = "soft";  // classes of style.h's sheet
};

struct Scene {
  double width = 0, height = 0;
  std::vector<Box> boxes;
  std::vector<Wire> wires;
  std::vector<Words> words;
  std::vector<std::string> notes;  // what is left out

  // Wires are as wide as their share of the scene's widest, which has 5 pixels; less where there are more than `comfortable`.
  void SetWidths(size_t comfortable);
  void Move(double dx, double dy);   // everything in it
  void Add(Scene other);             // beside what is there; sizes and notes are joined
};

// Path data: a straight line, and a curve drawn towards `control`.
std::string Line(Point a, Point b);
std::string Curve(Point a, Point control, Point b);

}  // namespace twofold::pictures
