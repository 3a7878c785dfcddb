#include "experiments/program/pictures/timeline_picture.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "core/base/format.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/style.h"

namespace twofold::pictures {
namespace {

constexpr double kWidth = 1120, kLeft = 200, kRight = 20, kLane = 20, kLaneGap = 3, kRankGap = 7, kHead = 26,
                 kAxis = 44;

std::vector<const Lane*> DrawnLanes(const RunData& run) {
  std::vector<const Lane*> lanes;
  for (const Lane& lane : run.lanes) {
    if (lane.rank < kMostRanks) lanes.push_back(&lane);
  }
  return lanes;
}

class Picture {
 public:
  Picture(double seconds, double least) : seconds_(seconds), least_(least) {}

  void Panel(const RunData& run) {
    y_ += 8;
    std::string title = absl::StrCat(run.Title(), ": ", SecondsText(run.trace_end));
    if (run.report.world_size() > kMostRanks)
      absl::StrAppend(&title, "; ranks 0 to ", kMostRanks - 1, " of ", run.report.world_size());
    absl::StrAppend(&body_, "<text class=\"head\" x=\"0\" y=\"", Px(y_ + 12), "\">", Escape(title), "</text>");
    y_ += kHead - 4;
    int rank = -1;
    for (const Lane* lane : DrawnLanes(run)) {
      if (rank >= 0 && lane->rank != rank) y_ += kRankGap;
      DrawLane(*lane, lane->rank != rank);
      rank = lane->rank;
    }
    DrawAxis(run);
  }

  std::string Finish() {
    const double legend = Legend();
    return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(kWidth), " ", Px(legend),
                        "\" width=\"100%\" role=\"img\" aria-label=\"time line\">", body_, "</svg>");
  }
  size_t boxes() const { return boxes_; }

 private:
  double X(double t) const { return kLeft + t / seconds_ * (kWidth - kLeft - kRight); }

  void DrawLane(const Lane& lane, bool first_of_rank) {
    if (first_of_rank) {
      absl::StrAppend(&body_, "<text x=\"0\" y=\"", Px(y_ + 14), "\">rank ", lane.rank, "</text>");
    }
    std::string label = lane.stream;
    if (label.size() > 24) label = label.substr(0, 23) + "…";
    absl::StrAppend(&body_, "<text class=\"soft end\" x=\"", Px(kLeft - 8), "\" y=\"", Px(y_ + 14), "\">",
                    Escape(label), "</text><rect class=\"lane\" x=\"", Px(kLeft), "\" y=\"", Px(y_), "\" width=\"",
                    Px(kWidth - kLeft - kRight), "\" height=\"", Px(kLane), "\"/>");
    for (const DrawnBox& box : MergeShort(lane.spans, least_)) DrawBox(lane, box);
    y_ += kLane + kLaneGap;
  }

  void DrawBox(const Lane& lane, const DrawnBox& box) {
    const SpanClass c = ClassOf(lane.stream, box.longest->name);
    used_[static_cast<size_t>(c)] = true;
    ++boxes_;
    std::string title =
        absl::StrCat(Escape(box.longest->name), ", ", SecondsText(box.longest->end - box.longest->start));
    if (box.longest->bytes > 0 && (c == SpanClass::kCommunication || c == SpanClass::kTransfer)) {
      absl::StrAppend(&title, ", ", BytesText(static_cast<double>(box.longest->bytes)));
    }
    if (box.spans > 1)
      title = absl::StrCat(box.spans, " spans in ", SecondsText(box.end - box.start), "; longest: ", title);
    absl::StrAppend(&body_, "<rect class=\"", CssClass(c), "\" x=\"", Px(X(box.start)), "\" y=\"", Px(y_),
                    "\" width=\"", Px(std::max(0.4, X(box.end) - X(box.start) - 0.15)), "\" height=\"", Px(kLane),
                    "\"><title>", title, "</title></rect>");
  }

  void DrawAxis(const RunData& run) {
    absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(kLeft), " ", Px(y_ + 2), "H", Px(kWidth - kRight), "\"/>");
    for (const double t : Ticks(0, seconds_, 8)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(X(t)), " ", Px(y_ + 2),
                      "v5\"/><text class=\"soft mid\" x=\"", Px(X(t)), "\" y=\"", Px(y_ + 20), "\">", SecondsText(t),
                      "</text>");
    }
    if (run.trace_end < 0.98 * seconds_) {  // this run ends before the other
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(X(run.trace_end)), " ", Px(y_ - kLane), "V", Px(y_ + 2),
                      "\"/>");
    }
    y_ += kAxis - 10;
  }

  double Legend() {
    double x = kLeft;
    for (int i = 0; i < kSpanClasses; ++i) {
      if (!used_[static_cast<size_t>(i)]) continue;
      const auto c = static_cast<SpanClass>(i);
      absl::StrAppend(&body_, "<rect class=\"", CssClass(c), "\" x=\"", Px(x), "\" y=\"", Px(y_),
                      "\" width=\"12\" height=\"12\"/>", "<text x=\"", Px(x + 17), "\" y=\"", Px(y_ + 10.5), "\">",
                      LegendName(c), "</text>");
      x += 17 + 7.2 * static_cast<double>(LegendName(c).size()) + 14;
    }
    return y_ + 20;
  }

  const double seconds_, least_;
  double y_ = 0;
  size_t boxes_ = 0;
  std::array<bool, kSpanClasses> used_{};
  std::string body_;
};

}  // namespace

std::vector<DrawnBox> MergeShort(const std::vector<DrawnSpan>& spans, double least) {
  std::vector<DrawnBox> boxes;
  const auto length = [](const DrawnSpan& s) { return s.end - s.start; };
  for (const DrawnSpan& s : spans) {
    const bool joins = !boxes.empty() && length(s) < least && boxes.back().end - boxes.back().start < least &&
                       s.start - boxes.back().end < least;
    if (!joins) {
      boxes.push_back({s.start, s.end, 1, &s});
      continue;
    }
    DrawnBox& box = boxes.back();
    box.end = std::max(box.end, s.end);
    ++box.spans;
    if (length(s) > length(*box.longest)) box.longest = &s;
  }
  return boxes;
}

std::string TimelinePicture(const std::vector<const RunData*>& runs) {
  double seconds = 0;
  for (const RunData* run : runs) {
    if (!run->lanes.empty()) seconds = std::max(seconds, run->trace_end);
  }
  if (seconds <= 0) return "";
  double least = 0.7 * seconds / (kWidth - kLeft - kRight);
  while (true) {
    Picture picture(seconds, least);
    for (const RunData* run : runs) {
      if (!run->lanes.empty()) picture.Panel(*run);
    }
    std::string svg = picture.Finish();
    if (picture.boxes() <= kMostSpans || least > seconds) return svg;
    least *= 1.6;
  }
}

}  // namespace twofold::pictures
