#include "experiments/program/pictures/memory_picture.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/format.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/style.h"

namespace twofold::pictures {
namespace {

constexpr double kWidth = 1120, kLeft = 80, kRight = 20, kHeight = 200, kHead = 28, kAxis = 40;

double Live(const MemoryLine& m, size_t sample) {
  double sum = 0;
  for (const std::vector<double>& category : m.by_category) sum += category[sample];
  return sum;
}

// The rank with the highest sample.
const std::pair<const int, MemoryLine>& Highest(const RunData& run) {
  const std::pair<const int, MemoryLine>* best = nullptr;
  double highest = -1;
  for (const auto& entry : run.memory) {
    for (size_t i = 0; i < entry.second.time.size(); ++i) {
      if (const double live = Live(entry.second, i); live > highest) highest = live, best = &entry;
    }
  }
  return *best;
}

// Keeps the highest sample of each half pixel: no visible loss, and the peak is kept.
std::vector<size_t> Thin(const MemoryLine& m, double seconds) {
  const double cell = seconds / (2 * (kWidth - kLeft - kRight));
  std::vector<size_t> kept;
  int64_t last = -1;
  for (size_t i = 0; i < m.time.size(); ++i) {
    const int64_t at = static_cast<int64_t>(m.time[i] / cell);
    if (at != last)
      kept.push_back(i), last = at;
    else if (Live(m, i) > Live(m, kept.back()))
      kept.back() = i;
  }
  return kept;
}

class Picture {
 public:
  Picture(double seconds, double bytes) : seconds_(seconds), bytes_(bytes) {}

  void Panel(const RunData& run) {
    const auto& [rank, m] = Highest(run);
    const std::vector<size_t> kept = Thin(m, seconds_);
    Title(absl::StrCat(run.Title(), ": rank ", rank,
                       run.report.memory_at_device()
                           ? ", when the device reaches each change"
                           : ", when the host makes each change, which the device may reach later"));
    top_ = y_;
    Grid();
    Areas(run, m, kept);
    Reserved(run, m, kept);
    Peak(m);
    TimeAxis();
    for (size_t c = 0; c < run.categories.size(); ++c) AddToLegend(run.categories[c], m.by_category[c]);
  }

  std::string Finish() {
    double x = kLeft;
    for (const std::string& c : categories_) {
      std::string name = c;
      std::replace(name.begin(), name.end(), '_', ' ');
      absl::StrAppend(&body_, "<rect class=\"", MemoryCss(c), "\" x=\"", Px(x), "\" y=\"", Px(y_),
                      "\" width=\"12\" height=\"12\"/>", "<text x=\"", Px(x + 17), "\" y=\"", Px(y_ + 10.5), "\">",
                      Escape(name), "</text>");
      x += 17 + 7.2 * static_cast<double>(c.size()) + 14;
    }
    absl::StrAppend(&body_, "<path class=\"reserved\" d=\"M", Px(x), " ", Px(y_ + 6), "h24\"/><text x=\"", Px(x + 30),
                    "\" y=\"", Px(y_ + 10.5), "\">reserved</text>");
    return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(kWidth), " ", Px(y_ + 20),
                        "\" width=\"100%\" role=\"img\" aria-label=\"memory over time\">", body_, "</svg>");
  }

 private:
  double X(double t) const { return kLeft + t / seconds_ * (kWidth - kLeft - kRight); }
  double Y(double bytes) const { return top_ + kHeight * (1 - bytes / bytes_); }

  // Adds a category to the legend if it holds something.
  void AddToLegend(const std::string& category, const std::vector<double>& bytes) {
    const bool known = std::find(categories_.begin(), categories_.end(), category) != categories_.end();
    if (!known && std::any_of(bytes.begin(), bytes.end(), [](double b) { return b > 0; }))
      categories_.push_back(category);
  }
  void Title(const std::string& title) {
    y_ += 8;
    absl::StrAppend(&body_, "<text class=\"head\" x=\"0\" y=\"", Px(y_ + 12), "\">", Escape(title), "</text>");
    y_ += kHead;
  }
  void Grid() {
    const double unit = bytes_ >= (1 << 30) ? 1 << 30 : bytes_ >= (1 << 20) ? 1 << 20 : 1 << 10;
    for (const double t : Ticks(0, bytes_ / unit, 5)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(kLeft), " ", Px(Y(t * unit)), "H", Px(kWidth - kRight),
                      "\"/><text class=\"soft end\" x=\"", Px(kLeft - 8), "\" y=\"", Px(Y(t * unit) + 4), "\">",
                      BytesText(t * unit), "</text>");
    }
  }
  // A value holds until the next sample, so lines are step functions.
  template <class Value>
  std::string Steps(const RunData& run, const MemoryLine& m, const std::vector<size_t>& kept, Value value) const {
    std::string d = absl::StrCat("M", Px(X(m.time[kept[0]])), " ", Px(Y(value(kept[0]))));
    double last = value(kept[0]);
    for (const size_t i : kept) {
      if (value(i) == last) continue;
      last = value(i);
      absl::StrAppend(&d, "H", Px(X(m.time[i])), "V", Px(Y(last)));
    }
    absl::StrAppend(&d, "H", Px(X(run.trace_end)));
    return d;
  }
  // Drawn from the top of the stack down: each area reaches to the axis, and the next one covers its lower part.
  void Areas(const RunData& run, const MemoryLine& m, const std::vector<size_t>& kept) {
    for (size_t c = run.categories.size(); c-- > 0;) {
      const auto stacked = [&](size_t i) {
        double sum = 0;
        for (size_t k = 0; k <= c; ++k) sum += m.by_category[k][i];
        return sum;
      };
      absl::StrAppend(&body_, "<path class=\"", MemoryCss(run.categories[c]), "\" d=\"", Steps(run, m, kept, stacked),
                      "V", Px(Y(0)), "H", Px(X(m.time[kept[0]])), "Z\"><title>", Escape(run.categories[c]),
                      "</title></path>");
    }
  }
  void Reserved(const RunData& run, const MemoryLine& m, const std::vector<size_t>& kept) {
    absl::StrAppend(&body_, "<path class=\"reserved\" d=\"",
                    Steps(run, m, kept, [&](size_t i) { return m.reserved[i]; }), "\"/>");
  }
  void Peak(const MemoryLine& m) {
    size_t at = 0;
    for (size_t i = 0; i < m.time.size(); ++i) {
      if (Live(m, i) > Live(m, at)) at = i;
    }
    const double x = X(m.time[at]), y = Y(Live(m, at));
    const bool left = x > kWidth - 220;
    absl::StrAppend(&body_, "<circle class=\"mark\" cx=\"", Px(x), "\" cy=\"", Px(y), "\" r=\"4.5\"/><text class=\"",
                    left ? "end" : "", "\" x=\"", Px(left ? x - 9 : x + 9), "\" y=\"", Px(y - 6), "\">peak ",
                    BytesText(Live(m, at)), "</text>");
  }
  void TimeAxis() {
    y_ = top_ + kHeight;
    for (const double t : Ticks(0, seconds_, 8)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(X(t)), " ", Px(y_),
                      "v5\"/><text class=\"soft mid\" x=\"", Px(X(t)), "\" y=\"", Px(y_ + 18), "\">", SecondsText(t),
                      "</text>");
    }
    y_ += kAxis - 8;
  }

  const double seconds_, bytes_;
  double y_ = 0, top_ = 0;
  std::vector<std::string> categories_;
  std::string body_;
};

}  // namespace

std::string MemoryPicture(const std::vector<const RunData*>& runs) {
  double seconds = 0, bytes = 0;
  for (const RunData* run : runs) {
    if (run->memory.empty()) continue;
    const MemoryLine& m = Highest(*run).second;
    seconds = std::max(seconds, run->trace_end);
    for (size_t i = 0; i < m.time.size(); ++i) bytes = std::max({bytes, m.reserved[i], Live(m, i)});
  }
  if (seconds <= 0 || bytes <= 0) return "";
  Picture picture(seconds, 1.08 * bytes);
  for (const RunData* run : runs) {
    if (!run->memory.empty()) picture.Panel(*run);
  }
  return picture.Finish();
}

}  // namespace twofold::pictures
