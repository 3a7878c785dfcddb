#include "topologies/networks/hamming_mesh.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// The position of an accelerator on a line: its board, and its place on that board.
struct Place {
  int board, index;
  friend bool operator==(const Place&, const Place&) = default;
};

// All lines of one direction (rows or columns). A line is `boards` boards of `length` accelerators; edge 2 * X is the
// west (north) edge of board X, 2 * X + 1 its east (south) edge.
struct Lines {
  Lines(int length, int boards, int count, int radix) : length(length), boards(boards), count(count) {
    if (length * boards == 1) return;  // nothing to join
    edges = 2 * boards;
    if (edges <= radix) {
      down = edges;
      leaves = 1;
    } else {
      down = radix / 2;
      up = radix - down;
      leaves = (edges + down - 1) / down;
      spines = up / Bundle(up, leaves, radix);
    }
  }
  int64_t mesh_cables() const { return int64_t{count} * boards * (length - 1); }
  int cables_a_line() const { return edges + leaves * up; }
  int switches_a_line() const { return leaves + spines; }

  int Leaf(int edge) const { return edge / down; }

  int length, boards, count;
  int edges = 0, down = 1, leaves = 0;
  int up = 0, spines = 0;  // in a tree: uplinks of a leaf
  // The first numbers of cables and vertices, set by the owner.
  int first_mesh = 0, first_cable = 0, first_switch = 0;
};

// One kind of path between two places of a line: over the mesh, or out by one edge and in by another.
struct Way {
  int out = -1, in = -1;  // edges; -1: over the mesh
  int hops = 0;
  int routes = 1;  // number of choices of spine
};

// All paths between two places that leave each board at most once; none if the places are equal.
struct Ways {
  Ways(const Lines& lines, Place from, Place to) {
    if (from == to) return;
    const auto through = [&](int exit, int entry) {
      const int out = 2 * from.board + exit, in = 2 * to.board + entry;
      const bool same_leaf = lines.Leaf(out) == lines.Leaf(in);
      const int to_edge = exit == 1 ? lines.length - 1 - from.index : from.index;
      const int from_edge = entry == 1 ? lines.length - 1 - to.index : to.index;
      way[static_cast<size_t>(count++)] = {out, in, to_edge + (same_leaf ? 2 : 4) + from_edge,
                                           same_leaf ? 1 : lines.up};
    };
    if (from.board == to.board) {
      way[static_cast<size_t>(count++)] = {-1, -1, std::abs(to.index - from.index), 1};
      from.index < to.index ? through(0, 1) : through(1, 0);
    } else {
      for (int exit : {1, 0}) {
        for (int entry : {0, 1}) through(exit, entry);
      }
    }
    int least = way[0].hops;
    for (int i = 1; i < count; ++i) least = std::min(least, way[static_cast<size_t>(i)].hops);
    for (int i = 0; i < count; ++i) {
      const Way& w = way[static_cast<size_t>(i)];
      (w.hops == least ? minimal : longer) += w.routes;
      is_minimal[static_cast<size_t>(i)] = w.hops == least;
    }
  }
  bool nothing() const { return count == 0; }
  // The path of route `number` among the minimal (or the longer) routes; `number` becomes the choice of spine.
  const Way& Find(bool of_minimal, int64_t& number) const {
    size_t i = 0;
    for (;; ++i) {
      if (is_minimal[i] != of_minimal) continue;
      if (number < way[i].routes) return way[i];
      number -= way[i].routes;
    }
  }

  std::array<Way, 4> way;
  std::array<bool, 4> is_minimal{};
  int count = 0;
  int64_t minimal = 0, longer = 0;
};

class HammingMesh : public PortNetwork {
 public:
  explicit HammingMesh(const HammingMeshOptions& o)
      : PortNetwork(static_cast<int>(MostPorts(o)), o.wiring),
        o_(o),
        rows_(o.a, o.x, o.b * o.y, o.radix),
        columns_(o.b, o.y, o.a * o.x, o.radix) {
    int cable = 0, vertex = ports_;
    for (Lines* lines : {&rows_, &columns_}) {
      lines->first_mesh = cable;
      cable += static_cast<int>(lines->mesh_cables());
    }
    for (Lines* lines : {&rows_, &columns_}) {
      lines->first_cable = cable;
      cable += lines->count * lines->cables_a_line();
      lines->first_switch = vertex;
      vertex += lines->count * lines->switches_a_line();
    }
    Reserve(vertex, cable);
    for (int p = 0; p < ports_; ++p) AddPort(p, p / (o.a * o.b));
    AddSwitches(rows_, "row");
    AddSwitches(columns_, "col");
    AddMeshes(rows_, true);
    AddMeshes(columns_, false);
    AddLines(rows_, true);
    AddLines(columns_, false);
  }

  std::string_view kind() const override { return "hamming_mesh"; }
  std::vector<int> grid() const override { return {o_.a * o_.x, o_.b * o_.y}; }
  int AtGrid(int position) const override {
    const int across = position % (o_.a * o_.x), down = position / (o_.a * o_.x);
    return (across / o_.a + o_.x * (down / o_.b)) * o_.a * o_.b + across % o_.a + o_.a * (down % o_.b);
  }
  bool endpoints_forward() const override { return true; }

  int64_t MinimalRoutes(Pair pair) const override { return Count(pair).minimal(); }
  int64_t Detours(Pair pair) const override { return Count(pair).detours(); }

  // Row first. The path along a line is chosen by the destination's place in it, which spreads destinations evenly.
  int64_t DefaultRoute(Pair pair) const override {
    const Counts n = Count(pair);
    const Place row = PlaceIn(pair.to, true), column = PlaceIn(pair.to, false);
    return (row.board * o_.a + row.index) % n.row * n.column + (column.board * o_.b + column.index) % n.column;
  }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    route.clear();
    Append(Between(*this, pair), number, route);
  }

  void Routes(Pair pair, std::span<const int64_t> numbers, std::vector<int>& links,
              std::vector<size_t>& ends) const override {
    const Between between(*this, pair);
    for (const int64_t number : numbers) {
      Append(between, number, links);
      ends.push_back(links.size());
    }
  }

 private:
  // The number of paths along the row and along the column; 1 minimal and no longer path if there is no distance to
  // cover.
  struct Counts {
    Counts(const Ways& r, const Ways& c)
        : row(r.nothing() ? 1 : r.minimal),
          column(c.nothing() ? 1 : c.minimal),
          row_longer(r.longer),
          column_longer(c.longer),
          orders(r.nothing() || c.nothing() ? 1 : 2) {}
    int64_t minimal() const { return orders * row * column; }
    int64_t detours() const { return orders * (row_longer * column + row * column_longer); }
    int64_t row, column, row_longer, column_longer, orders;
  };
  Counts Count(Pair pair) const {
    return Counts(Ways(rows_, PlaceIn(pair.from, true), PlaceIn(pair.to, true)),
                  Ways(columns_, PlaceIn(pair.from, false), PlaceIn(pair.to, false)));
  }

  // A pair's places in the lines of one direction, and which lines these are.
  struct Along {
    Along(const HammingMesh& mesh, const Lines& lines, Pair pair, bool row)
        : lines(lines),
          start(mesh.PlaceIn(pair.from, row)),
          end(mesh.PlaceIn(pair.to, row)),
          from(mesh.LineOf(pair.from, row)),
          to(mesh.LineOf(pair.to, row)),
          ways(lines, start, end) {}
    const Lines& lines;
    Place start, end;
    int from, to;  // the lines of the pair's ports
    Ways ways;
  };
  struct Between {
    Between(const HammingMesh& mesh, Pair pair)
        : row(mesh, mesh.rows_, pair, true), column(mesh, mesh.columns_, pair, false), counts(row.ways, column.ways) {}
    Along row, column;
    Counts counts;
  };

  void Append(const Between& between, int64_t number, std::vector<int>& route) const {
    const auto& [row, column, n] = between;
    // Whether the row or the column takes a longer path, and the route's number among those.
    bool row_minimal = true, column_minimal = true;
    if (number >= n.minimal()) {
      number -= n.minimal();
      row_minimal = number >= n.orders * n.row_longer * n.column;
      column_minimal = !row_minimal;
      if (row_minimal) number -= n.orders * n.row_longer * n.column;
    }
    const int64_t in_column = column_minimal ? n.column : n.column_longer;
    const int64_t in_row = row_minimal ? n.row : n.row_longer;
    const int64_t before = number / in_column;
    const int64_t column_number = number - before * in_column, row_number = before % in_row;
    const bool row_first = before < in_row;
    if (row_first) Walk(row, row.from, row_minimal, row_number, route);
    Walk(column, row_first ? column.to : column.from, column_minimal, column_number, route);
    if (!row_first) Walk(row, row.to, row_minimal, row_number, route);
  }

  // Port board * a * b + i + a * j, board X + x * Y.
  Place PlaceIn(int port, bool row) const {
    const int board = port / (o_.a * o_.b), on_board = port % (o_.a * o_.b);
    return row ? Place{board % o_.x, on_board % o_.a} : Place{board / o_.x, on_board / o_.a};
  }
  int LineOf(int port, bool row) const {
    const Place across = PlaceIn(port, !row);
    return across.board * (row ? o_.b : o_.a) + across.index;
  }
  int PortAt(int line, Place place, bool row) const {
    const int width = row ? o_.b : o_.a;
    const Place across{line / width, line % width};
    const Place in_row = row ? place : across, in_column = row ? across : place;
    return (in_row.board + o_.x * in_column.board) * o_.a * o_.b + in_row.index + o_.a * in_column.index;
  }

  // Links: from a place of a board to the east (south); from an edge to its leaf; from a leaf to a spine. The reverse
  // link has the next number.
  static int MeshLink(const Lines& l, int line, Place p) {
    return 2 * (l.first_mesh + (line * l.boards + p.board) * (l.length - 1) + p.index);
  }
  static int EdgeLink(const Lines& l, int line, int edge) {
    return 2 * (l.first_cable + line * l.cables_a_line() + edge);
  }
  static int SpineLink(const Lines& l, int line, int leaf, int k) {
    return 2 * (l.first_cable + line * l.cables_a_line() + l.edges + leaf * l.up + k);
  }

  static void WalkBoard(const Lines& l, int line, int board, int from, int to, std::vector<int>& route) {
    for (int i = from; i < to; ++i) route.push_back(MeshLink(l, line, {board, i}));
    for (int i = from; i > to; --i) route.push_back(MeshLink(l, line, {board, i - 1}) + 1);
  }

  void AddSwitches(const Lines& l, std::string_view name) {
    for (int line = 0; line < l.count; ++line) {
      for (int s = 0; s < l.leaves; ++s)
        AddSwitch(l.spines == 0 ? NameOf(name, line) : StrCat(name, line, ".leaf", s), -1, 0);
      for (int s = 0; s < l.spines; ++s) AddSwitch(StrCat(name, line, ".spine", s), -1, 1);
    }
  }

  void AddMeshes(const Lines& l, bool row) {
    const Seconds hop = wiring_.cable + wiring_.switching;
    for (int line = 0; line < l.count; ++line) {
      for (int board = 0; board < l.boards; ++board) {
        for (int i = 0; i + 1 < l.length; ++i) {
          AddPortToPort(PortAt(line, {board, i}, row), PortAt(line, {board, i + 1}, row), hop);
        }
      }
    }
  }
  void AddPortToPort(int a, int b, Seconds hop) {
    links_.push_back({StrCat("p", a, "-p", b), wiring_.bandwidth, hop, a, b});
    links_.push_back({StrCat("p", b, "-p", a), wiring_.bandwidth, hop, b, a});
  }

  void AddLines(const Lines& l, bool row) {
    for (int line = 0; line < l.count; ++line) {
      const int first = l.first_switch + line * l.switches_a_line();
      for (int e = 0; e < l.edges; ++e) {
        const int port = PortAt(line, {e / 2, e % 2 == 0 ? 0 : l.length - 1}, row);
        AddSwitchCable(port, first + l.Leaf(e), wiring_.bandwidth, wiring_.cable, l.length == 1 ? e % 2 : -1);
      }
      for (int leaf = 0; leaf < l.leaves; ++leaf) {
        for (int k = 0; k < l.up; ++k) {
          const int bundle = l.up / l.spines;
          AddSwitchCable(first + leaf, first + l.leaves + k / bundle, wiring_.bandwidth, wiring_.cable,
                         bundle > 1 ? k % bundle : -1);
        }
      }
    }
  }

  // Appends the links along `line`, from the place of pair.from to that of pair.to.
  static void Walk(const Along& along, int line, bool minimal, int64_t number, std::vector<int>& route) {
    if (along.ways.nothing()) return;
    const Lines& l = along.lines;
    const Place start = along.start, end = along.end;
    const Way& way = along.ways.Find(minimal, number);
    if (way.out < 0) return WalkBoard(l, line, start.board, start.index, end.index, route);
    WalkBoard(l, line, start.board, start.index, way.out % 2 == 0 ? 0 : l.length - 1, route);
    route.push_back(EdgeLink(l, line, way.out));
    if (const int a = l.Leaf(way.out), b = l.Leaf(way.in); a != b) {
      route.push_back(SpineLink(l, line, a, static_cast<int>(number)));
      route.push_back(SpineLink(l, line, b, static_cast<int>(number)) + 1);
    }
    route.push_back(EdgeLink(l, line, way.in) + 1);
    WalkBoard(l, line, end.board, way.in % 2 == 0 ? 0 : l.length - 1, end.index, route);
  }

  const HammingMeshOptions o_;
  Lines rows_, columns_;
};

}  // namespace

int64_t MostPorts(const HammingMeshOptions& o) { return int64_t{o.a} * o.b * o.x * o.y; }

absl::Status Check(const HammingMeshOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  if (absl::Status s = CheckNoNic(o.wiring); !s.ok()) return s;
  int64_t ports = 1;
  for (const auto& [field, value] :
       {std::pair("a", o.a), std::pair("b", o.b), std::pair("x", o.x), std::pair("y", o.y)}) {
    if (absl::Status s = CheckAtLeast(field, value, 1); !s.ok()) return s;
    ports *= value;
    if (ports > kMostPorts) {
      return InvalidArgument(field, " = ", value, ": a * b * x * y must be at most ", kMostPorts);
    }
  }
  if (o.radix < 2 || o.radix > 65536) {
    return InvalidArgument("radix = ", o.radix, ": must be between 2 and 65536");
  }
  const int64_t most = int64_t{o.radix} * (o.radix / 2) / 2;
  for (const auto& [field, boards] : {std::pair("x", o.x), std::pair("y", o.y)}) {
    if (2 * boards > o.radix && boards > most) {
      return InvalidArgument(field, " = ", boards, ": a tree of 2 levels of switches of radix = ", o.radix,
                             " joins at most ", most, " boards");
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<Topology> MakeHammingMesh(const HammingMeshOptions& options) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return std::make_unique<HammingMesh>(options);
}

}  // namespace twofold
