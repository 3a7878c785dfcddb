#include "experiments/program/pictures/schedule_picture.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/format.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/style.h"

namespace twofold::pictures {
namespace {

constexpr double kWidth = 1120, kLeft = 120, kRight = 20, kRow = 24, kRowGap = 3, kHead = 24, kAxis = 36;
constexpr double kDigit = 6.2;  // width in the small font

// CSS classes of boxes, and their names in the legend.
constexpr const char* kCss[] = {"s-forward", "s-backward", "s-input", "s-weights", "s-recompute", "s-other"};
constexpr const char* kNames[] = {
    "forward",         "backward", "gradient of the input", "gradients of the weights", "recomputed forward",
    "update and other"};
constexpr int kCommunication = kPasses, kIdle = kPasses + 1, kEntries = kPasses + 2;

const char* CssOf(int entry) {
  return entry == kCommunication ? "c-communication" : entry == kIdle ? "s-idle" : kCss[entry];
}
const char* NameOf(int entry) {
  return entry == kCommunication ? "communication" : entry == kIdle ? "idle" : kNames[entry];
}

class Picture {
 public:
  Picture(double end, bool seconds, double least) : end_(end), seconds_(seconds), least_(least) {}

  void Panel(const ScheduleStory& story) {
    y_ += 8;
    std::string title = absl::StrCat(story.title, ": ", Time(story.end), seconds_ ? "" : " forward passes long");
    if (story.rows.size() > kMostStages)
      absl::StrAppend(&title, "; stages 0 to ", kMostStages - 1, " of ", story.rows.size());
    absl::StrAppend(&body_, "<text class=\"head\" x=\"0\" y=\"", Px(y_ + 12), "\">", Escape(title), "</text>");
    y_ += kHead - 4;
    const double top = y_;
    for (size_t s = 0; s < std::min(story.rows.size(), kMostStages); ++s) Row(story.rows[s], story.end);
    if (story.end < 0.995 * end_) {  // this story ends before another
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(X(story.end)), " ", Px(top), "V", Px(y_ + 2), "\"/>");
    }
    Axis();
  }

  std::string Finish() {
    const double bottom = Legend();
    return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(kWidth), " ", Px(bottom),
                        "\" width=\"100%\" role=\"img\" aria-label=\"pipeline schedule\">", body_, "</svg>");
  }
  size_t boxes() const { return boxes_; }

 private:
  std::string Time(double t) const { return seconds_ ? SecondsText(t) : absl::StrFormat("%g", t); }
  double X(double t) const { return kLeft + t / end_ * (kWidth - kLeft - kRight); }

  void Row(const ScheduleRow& row, double end) {
    absl::StrAppend(&body_, "<text class=\"end\" x=\"", Px(kLeft - 8), "\" y=\"", Px(y_ + 16), "\">", Escape(row.name),
                    "</text>");
    Box(kIdle, 0, end, 1, "");
    for (size_t i = 0; i < row.phases.size();) i = PhaseBox(row.phases, i);
    Stretches(kIdle, row.idle);
    Stretches(kCommunication, row.communication);
    for (const Phase& phase : row.phases) Number(phase);
    y_ += kRow + kRowGap;
  }

  // Draws one box for phases[from], or for a series of phases from there on that are all too short to be seen. Returns
  // the next index.
  size_t PhaseBox(const std::vector<Phase>& phases, size_t from) {
    const Phase& first = phases[from];
    size_t next = from + 1;
    double end = first.end;
    while (next < phases.size() && phases[next].end - first.start < least_) end = phases[next++].end;
    std::string title = first.pass == Pass::kOther ? std::string(NameOf(static_cast<int>(Pass::kOther)))
                                                   : absl::StrCat(kNames[static_cast<size_t>(first.pass)],
                                                                  ", micro-batch ", first.micro_batch);
    if (first.chunk > 0) absl::StrAppend(&title, ", chunk ", first.chunk);
    if (next > from + 1) absl::StrAppend(&title, ", and ", next - from - 1, " more");
    Box(static_cast<int>(first.pass), first.start, end, 1 / (1 + 0.55 * first.chunk),
        absl::StrCat(title, "; ", Time(end - first.start)));
    return next;
  }

  // Draws the stretches that are wide enough to be seen.
  void Stretches(int entry, const std::vector<Stretch>& stretches) {
    for (const Stretch& s : stretches) {
      if (s.end - s.start >= least_)
        Box(entry, s.start, s.end, 1, absl::StrCat(NameOf(entry), "; ", Time(s.end - s.start)));
    }
  }

  void Box(int entry, double start, double end, double opacity, const std::string& title) {
    used_[static_cast<size_t>(entry)] = true;
    ++boxes_;
    // A thin gap of background separates boxes, if there is room for it.
    const double width = X(end) - X(start), hair = width > 4 && entry != kIdle ? 0.8 : 0;
    absl::StrAppend(&body_, "<rect class=\"", CssOf(entry), "\" x=\"", Px(X(start)), "\" y=\"", Px(y_), "\" width=\"",
                    Px(std::max(0.3, width - hair)), "\" height=\"", Px(kRow), "\"");
    if (opacity < 1) absl::StrAppend(&body_, " fill-opacity=\"", absl::StrFormat("%.2f", opacity), "\"");
    if (title.empty()) {
      body_ += "/>";
    } else {
      absl::StrAppend(&body_, "><title>", Escape(title), "</title></rect>");
    }
  }

  void Number(const Phase& phase) {
    if (phase.pass == Pass::kOther) return;
    const std::string text = absl::StrCat(phase.micro_batch);
    if (X(phase.end) - X(phase.start) < kDigit * static_cast<double>(text.size()) + 3) return;
    ++boxes_;
    absl::StrAppend(&body_, "<text class=\"mid s-number\" x=\"", Px((X(phase.start) + X(phase.end)) / 2), "\" y=\"",
                    Px(y_ + 16), "\">", text, "</text>");
  }

  void Axis() {
    absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(kLeft), " ", Px(y_ + 2), "H", Px(kWidth - kRight), "\"/>");
    for (const double t : Ticks(0, end_, 8)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(X(t)), " ", Px(y_ + 2),
                      "v5\"/><text class=\"soft mid\" x=\"", Px(X(t)), "\" y=\"", Px(y_ + 20), "\">", Time(t),
                      "</text>");
    }
    y_ += kAxis;
  }

  double Legend() {
    double x = kLeft;
    for (int entry = 0; entry < kEntries; ++entry) {
      if (!used_[static_cast<size_t>(entry)]) continue;
      const std::string name = NameOf(entry);
      absl::StrAppend(&body_, "<rect class=\"", CssOf(entry), "\" x=\"", Px(x), "\" y=\"", Px(y_),
                      "\" width=\"12\" height=\"12\"/>", "<text x=\"", Px(x + 17), "\" y=\"", Px(y_ + 10.5), "\">",
                      name, "</text>");
      x += 17 + 6.6 * static_cast<double>(name.size()) + 14;
    }
    return y_ + 20;
  }

  const double end_;
  const bool seconds_;
  const double least_;
  double y_ = 0;
  size_t boxes_ = 0;
  std::array<bool, kEntries> used_{};
  std::string body_;
};

}  // namespace

std::string SchedulePicture(const std::vector<ScheduleStory>& stories) {
  double end = 0;
  const ScheduleStory* drawn = nullptr;
  for (const ScheduleStory& story : stories) {
    if (story.rows.empty()) continue;
    TWOFOLD_CHECK(drawn == nullptr || drawn->seconds == story.seconds, "one picture has one scale");
    drawn = &story;
    end = std::max(end, story.end);
  }
  if (drawn == nullptr || end <= 0) return "";
  for (double least = 0.5 * end / (kWidth - kLeft - kRight);; least *= 1.6) {
    Picture picture(end, drawn->seconds, least);
    for (const ScheduleStory& story : stories) {
      if (!story.rows.empty()) picture.Panel(story);
    }
    std::string svg = picture.Finish();
    if (picture.boxes() <= kMostPhases || least > end) return svg;
  }
}

}  // namespace twofold::pictures
