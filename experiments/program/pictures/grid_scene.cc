// Draws a torus or mesh as a grid, with slices of a third dimension beside each other. Of a large one the corner is
// drawn.
#include <algorithm>
#include <string>
#include <vector>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/layout_parts.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

class Grid {
 public:
  Grid(const Contracted& net, const std::vector<int>& dims, bool wrap) : net_(net), dims_(dims), wrap_(wrap) {}

  Scene Draw() {
    for (int z = 0; z < nz_; ++z) {
      Neighbours(z);
      WrapRows(z);
      WrapColumns(z);
      Places(z);
      if (!flat_)
        scene_.words.push_back({{PlaceOf(0, 0, z).x + step_ * (nx_ - 1) / 2, high_ - 8},
                                StrCat("slice ", z, " of the third dimension"),
                                "soft mid"});
    }
    Notes();
    return std::move(scene_);
  }

 private:
  int Dim(size_t d) const { return d < dims_.size() ? dims_[d] : 1; }
  int NumberOf(int x, int y, int z) const { return x + Dim(0) * (y + Dim(1) * z); }
  Point PlaceOf(int x, int y, int z) const {
    return Point{left_ + slice_ * z + step_ * x, (flat_ ? 45 : 75) + step_ * y};
  }
  void Join(int a, int b, const std::string& path) {
    if (const Bundle* bundle = net_.Between(std::min(a, b), std::max(a, b)); bundle != nullptr)
      scene_.wires.push_back(WireOf(net_, *bundle, path));
  }

  void Neighbours(int z) {
    for (int y = 0; y < ny_; ++y) {
      for (int x = 0; x < nx_; ++x) {
        const Point at = PlaceOf(x, y, z);
        if (x + 1 < nx_) Join(NumberOf(x, y, z), NumberOf(x + 1, y, z), Line(at, PlaceOf(x + 1, y, z)));
        if (y + 1 < ny_) Join(NumberOf(x, y, z), NumberOf(x, y + 1, z), Line(at, PlaceOf(x, y + 1, z)));
        if (y == 0 && z + 1 < nz_)
          Join(NumberOf(x, y, z), NumberOf(x, y, z + 1),
               Curve(at, {(at.x + PlaceOf(x, y, z + 1).x) / 2, at.y - 62}, PlaceOf(x, y, z + 1)));
      }
    }
  }

  // The wrap-around links; stubs if rows are cut off.
  void WrapRows(int z) {
    for (int y = 0; y < ny_ && wrap_ && Dim(0) > 2; ++y) {
      const Point a = PlaceOf(0, y, z), b = PlaceOf(nx_ - 1, y, z);
      if (nx_ == Dim(0)) {
        Join(
            NumberOf(0, y, z), NumberOf(nx_ - 1, y, z),
            StrCat("M", a.x, " ", a.y, "C", a.x - 30, " ", a.y - 24, " ", b.x + 30, " ", b.y - 24, " ", b.x, " ", b.y));
      } else {
        Join(NumberOf(nx_ - 1, y, z), NumberOf(nx_, y, z), Line(b, {b.x + 26, b.y}));
        Join(NumberOf(0, y, z), NumberOf(Dim(0) - 1, y, z), Line(a, {a.x - 26, a.y}));
      }
    }
  }

  void WrapColumns(int z) {
    for (int x = 0; x < nx_ && wrap_ && Dim(1) > 2; ++x) {
      const Point a = PlaceOf(x, 0, z), b = PlaceOf(x, ny_ - 1, z);
      if (ny_ == Dim(1)) {
        Join(
            NumberOf(x, 0, z), NumberOf(x, ny_ - 1, z),
            StrCat("M", a.x, " ", a.y, "C", a.x + 24, " ", a.y - 30, " ", b.x + 24, " ", b.y + 30, " ", b.x, " ", b.y));
      } else {
        Join(NumberOf(x, ny_ - 1, z), NumberOf(x, ny_, z), Line(b, {b.x, b.y + 26}));
        Join(NumberOf(x, 0, z), NumberOf(x, Dim(1) - 1, z), Line(a, {a.x, a.y - 26}));
      }
    }
  }

  void Places(int z) {
    for (int y = 0; y < ny_; ++y) {
      for (int x = 0; x < nx_; ++x) {
        const int n = NumberOf(x, y, z);
        scene_.boxes.push_back(BoxOf(net_.things[static_cast<size_t>(n)], PlaceOf(x, y, z), step_ * 0.55, step_ * 0.42,
                                     step_ > 40 || n < 100 ? StrCat(n) : ""));
      }
    }
  }

  void Notes() {
    if (nx_ < Dim(0) || ny_ < Dim(1))
      scene_.notes.push_back(
          StrCat(nx_, " of ", Dim(0), " by ", ny_, " of ", Dim(1), " places are drawn; stubs lead to the others"));
    if (!flat_) {
      scene_.notes.push_back(
          StrCat(nz_ < Dim(2) ? StrCat(nz_, " of ", Dim(2), " slices are drawn; ") : "",
                 "every place is joined to the same place of the slices before and after (drawn for the top row)",
                 wrap_ && Dim(2) > 2 ? ", the last slice to the first" : ""));
    }
    if (dims_.size() > 3)
      scene_.notes.push_back(
          StrCat("the other ", Counted(static_cast<int64_t>(dims_.size()) - 3, "dimension"), " are not drawn"));
  }

  const Contracted& net_;
  const std::vector<int>& dims_;
  const bool wrap_;
  const bool flat_ = dims_.size() < 3;
  const int most_ = flat_ ? 10 : 6;
  const int nx_ = std::min(Dim(0), most_), ny_ = std::min(Dim(1), most_), nz_ = std::min(Dim(2), 4);  // drawn
  const double slice_ = flat_ ? 560 : (kSceneWidth - 10) / nz_;                                       // of width
  const double step_ = std::min(flat_ ? 58.0 : 50.0, (slice_ - 70) / std::max(nx_ - 1, 1));
  const double high_ = step_ * (ny_ - 1) + (flat_ ? 90 : 120);
  const double left_ = flat_ ? (kSceneWidth - step_ * (nx_ - 1)) / 2 : 36;
  Scene scene_{.width = kSceneWidth, .height = high_};
};

}  // namespace

Scene GridScene(const Contracted& net, const std::vector<int>& dims, bool wrap) { return Grid(net, dims, wrap).Draw(); }

}  // namespace twofold::pictures
