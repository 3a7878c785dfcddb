// Draws a HammingMesh: boards of a x b accelerators, and the switches of rows and columns, each at the end of a lane
// that the edges of its boards lead into.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/pictures/layout_parts.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

class Boards {
 public:
  Boards(const Contracted& net, int a, int b, int x, int y) : net_(net), a_(a), b_(b), x_(x), y_(y) {}

  Scene Draw() {
    for (int by = 0; by < ny_; ++by) {
      for (int bx = 0; bx < nx_; ++bx) Board(bx, by);
    }
    for (int by = 0; by < ny_; ++by) {
      for (int j = 0; j < b_; ++j) Row(by, j);
    }
    for (int bx = 0; bx < nx_; ++bx) {
      for (int i = 0; i < a_; ++i) Column(bx, i);
    }
    for (int by = 0; by < ny_; ++by) {
      for (int bx = 0; bx < nx_; ++bx) Accelerators(bx, by);
    }
    scene_.notes.push_back(
        "both edges of every board lead into the lane of their row and of their column, a cable each, and so to its "
        "switch");
    if (nx_ < x_ || ny_ < y_)
      scene_.notes.push_back(
          StrCat(nx_, " of ", x_, " by ", ny_, " of ", y_, " boards are drawn; the others hang on the same switches"));
    return std::move(scene_);
  }

 private:
  const Thing& At(int t) const { return net_.things[static_cast<size_t>(t)]; }
  int Port(int bx, int by, int i, int j) const { return (bx + x_ * by) * a_ * b_ + i + a_ * j; }
  Point PlaceOf(int bx, int by, int i, int j) const {
    return Point{left_ + board_w_ * bx + 11 + step_ * (i + 0.5), top_ + board_h_ * by + 11 + step_ * (j + 0.5)};
  }

  // The panel of a board, and the links on it.
  void Board(int bx, int by) {
    scene_.boxes.push_back({.kind = Box::kPanel,
                            .at = {left_ + board_w_ * (bx + 0.5), top_ + board_h_ * (by + 0.5)},
                            .w = board_w_ - 10,
                            .h = board_h_ - 10});
    for (int j = 0; j < b_; ++j) {
      for (int i = 0; i < a_; ++i) {
        const int p = Port(bx, by, i, j);
        const Point at = PlaceOf(bx, by, i, j);
        if (i + 1 < a_)
          scene_.wires.push_back(WireOf(net_, *net_.Between(p, p + 1), Line(at, PlaceOf(bx, by, i + 1, j))));
        if (j + 1 < b_)
          scene_.wires.push_back(WireOf(net_, *net_.Between(p, p + a_), Line(at, PlaceOf(bx, by, i, j + 1))));
      }
    }
  }

  void Accelerators(int bx, int by) {
    for (int j = 0; j < b_; ++j) {
      for (int i = 0; i < a_; ++i) {
        const int p = Port(bx, by, i, j);
        scene_.boxes.push_back(BoxOf(At(p), PlaceOf(bx, by, i, j), 27, 20, p < 1000 ? StrCat(p) : ""));
      }
    }
  }

  void Row(int by, int j) {
    const int s = SwitchOf(Port(0, by, 0, j), x_ > 1 ? Port(1, by, 0, j) : Port(0, by, a_ - 1, j));
    const double lane = PlaceOf(0, by, 0, j).y + step_ * 0.44;
    for (int bx = 0; bx < nx_; ++bx) {
      for (const int i : a_ == 1 ? std::vector<int>{0} : std::vector<int>{0, a_ - 1}) {
        const Point at = PlaceOf(bx, by, i, j);
        Lead(Port(bx, by, i, j), s, at, {at.x + (i == 0 ? -7.0 : 7.0), lane}, {row_x_, lane});
      }
    }
    AddSwitch(s, {row_x_ + 20, lane}, 52, 22);
  }

  void Column(int bx, int i) {
    const int s = SwitchOf(Port(bx, 0, i, 0), y_ > 1 ? Port(bx, 1, i, 0) : Port(bx, 0, i, b_ - 1));
    const double lane = PlaceOf(bx, 0, i, 0).x + step_ * 0.46;
    for (int by = 0; by < ny_; ++by) {
      for (const int j : b_ == 1 ? std::vector<int>{0} : std::vector<int>{0, b_ - 1}) {
        const Point at = PlaceOf(bx, by, i, j);
        Lead(Port(bx, by, i, j), s, at, {lane, at.y + (j == 0 ? -5.0 : 5.0)}, {lane, column_y_});
      }
    }
    AddSwitch(s, {lane, column_y_ + 8}, step_ - 6, 20);
  }

  // The switch connected to both ports; -1: none.
  int SwitchOf(int port, int mate) const {
    for (const int m : net_.of[static_cast<size_t>(port)]) {
      const int s = net_.Other(m, port);
      if (At(s).is_switch && (port == mate || net_.Between(mate, s) != nullptr)) return s;
    }
    return -1;
  }

  // A cable from an accelerator to a switch: to the `corner`, and along its lane to the end.
  void Lead(int from, int s, Point at, Point corner, Point end) {
    const Bundle* bundle = s < 0 ? nullptr : net_.Between(std::min(from, s), std::max(from, s));
    if (bundle == nullptr) return;
    Wire wire = WireOf(net_, *bundle, StrCat(Line(at, corner), "L", end.x, " ", end.y));
    wire.bandwidth = bundle->cable;
    scene_.wires.push_back(std::move(wire));
  }

  void AddSwitch(int s, Point at, double w, double h) {
    if (s >= 0 && drawn_.insert(s).second) scene_.boxes.push_back(BoxOf(At(s), at, w, h, At(s).name));
  }

  const Contracted& net_;
  const int a_, b_, x_, y_;
  const int nx_ = std::min(x_, std::max(2, 8 / a_)), ny_ = std::min(y_, std::max(2, 6 / b_));  // boards that are drawn
  const double step_ = a_ * nx_ > 12 ? 44 : 54, board_w_ = step_ * a_ + 24, board_h_ = step_ * b_ + 24;
  const double left_ = 30, top_ = 14;
  const double row_x_ = left_ + board_w_ * nx_ + 40, column_y_ = top_ + board_h_ * ny_ + 34;
  std::set<int> drawn_;  // switches
  Scene scene_{.width = row_x_ + 60, .height = column_y_ + 30};
};

}  // namespace

Scene BoardsScene(const Contracted& net, int a, int b, int x, int y) { return Boards(net, a, b, x, y).Draw(); }

}  // namespace twofold::pictures
