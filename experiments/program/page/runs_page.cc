#include "experiments/program/page/page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "experiments/program/page/page_data.h"
#include "experiments/program/page/web_texts.h"
#include "experiments/program/page/whole_page.h"
#include "experiments/program/pictures/chart.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/report/tables.h"

namespace twofold::page {
namespace {

using pictures::Chart;
using pictures::Escape;
using pictures::Number;
using pictures::RunData;
using pictures::Series;

using Runs = std::vector<const RunData*>;

std::string Row(const std::string& name, const std::vector<std::string>& cells) {
  std::string row = absl::StrCat("<tr><td>", name, "</td>");
  for (const std::string& cell : cells) absl::StrAppend(&row, "<td>", cell, "</td>");
  return row + "</tr>\n";
}

// A row of the summary: a number for every run and, with two runs, the difference of the first from the second.
template <class Format, class Value>
std::string Compared(const std::string& name, const Runs& runs, Format format, Value value) {
  std::vector<std::string> cells;
  for (const RunData* run : runs) cells.push_back(format(value(*run)));
  if (runs.size() == 2) cells.push_back(PercentText(value(*runs[0]) / value(*runs[1]) - 1));
  return Row(name, cells);
}

template <class Field>
double HighestRank(const RunData& run, Field field) {
  double highest = 0;
  for (const report::Rank& r : run.report.ranks()) highest = std::max(highest, static_cast<double>((r.*field)()));
  return highest;
}

std::string SummaryHead(const Runs& runs) {
  std::string head = "<tr><th></th>";
  for (const RunData* run : runs) absl::StrAppend(&head, "<th>", Escape(run->Title()), "</th>");
  if (runs.size() == 2) absl::StrAppend(&head, "<th>difference of the first from the second</th>");
  return head + "</tr>\n";
}

std::string Summary(const Runs& runs) {
  std::string t = "<div class=wrap><table>" + SummaryHead(runs);
  const auto seconds = [](double v) { return SecondsText(v); };
  const auto size = [](double v) { return BytesText(v); };
  const auto share = [](double v) { return ShareText(v); };
  t += Compared("time of a step, median", runs, seconds,
                [](const RunData& r) { return r.report.median_step_seconds(); });
  std::vector<std::string> intervals;
  for (const RunData* r : runs) {
    intervals.push_back(absl::StrCat(SecondsText(r->report.low()), " to ", SecondsText(r->report.high())));
  }
  if (runs.size() == 2) intervals.push_back("");
  t += Row("its interval", intervals);
  t += Compared("tokens (or samples) per second", runs, Number,
                [](const RunData& r) { return r.report.tokens_per_second(); });
  t += Compared("exposed communication per step", runs, seconds,
                [](const RunData& r) { return r.report.exposed_communication_seconds(); });
  t += Compared("peak memory, highest rank", runs, size,
                [](const RunData& r) { return HighestRank(r, &report::Rank::peak_bytes); });
  t += Compared("reserved memory, highest rank", runs, size,
                [](const RunData& r) { return HighestRank(r, &report::Rank::reserved_bytes); });
  t += Compared("fragmentation (reserved, but not live at the peak), highest rank", runs, size, [](const RunData& r) {
    return HighestRank(r, &report::Rank::reserved_bytes) - HighestRank(r, &report::Rank::peak_bytes);
  });
  const auto used = [](double v) { return v > 0 ? BytesText(v) : "-"; };  // 0: nothing offloaded
  t += Compared("peak of the host's memory, highest rank", runs, used,
                [](const RunData& r) { return HighestRank(r, &report::Rank::host_peak_bytes); });
  t += Compared("outside the ledger, highest rank", runs, size,
                [](const RunData& r) { return HighestRank(r, &report::Rank::outside_ledger_bytes); });
  t += Compared("bubble", runs, share, [](const RunData& r) { return r.report.bubble_fraction(); });
  const auto known = [](double v) { return v > 0 ? ShareText(v) : "-"; };  // 0: the devices' peak is unknown
  t += Compared("MFU", runs, known, [](const RunData& r) { return r.report.mfu(); });
  t += Compared("HFU", runs, known, [](const RunData& r) { return r.report.hfu(); });
  return t + "</table></div>\n";
}

std::string Heading(const Runs& runs) {
  const report::Report& r = runs[0]->report;
  std::string text =
      absl::StrCat("<h1>", Escape(r.name()), "</h1><p class=sub>", Number(static_cast<double>(r.parameters())),
                   " parameters, ", Counted(r.world_size(), "rank"), ", ", Counted(r.steps_size(), "step"));
  if (!r.device().empty()) absl::StrAppend(&text, ", ", Escape(r.device()));
  text += "</p>";
  for (const RunData* run : runs) {
    if (run->report.outcome() == report::OK) continue;
    absl::StrAppend(&text, "<div class=bad><b>", Escape(run->Title()), ": ",
                    report::Outcome_Name(run->report.outcome()), "</b>\n", Escape(run->report.message()), "</div>");
  }
  return text;
}

std::string Charts(const Runs& runs) {
  std::vector<Series> losses, times, validations;
  for (size_t i = 0; i < runs.size(); ++i) {
    const report::Report& r = runs[i]->report;
    Series loss{runs[i]->Title(), {}, static_cast<int>(i % 8)}, time{runs[i]->Title(), {}, static_cast<int>(i % 8)};
    for (const report::Step& s : r.steps()) loss.values.push_back(s.loss()), time.values.push_back(s.seconds());
    time.median = r.median_step_seconds(), time.low = r.low(), time.high = r.high();
    // Without data every loss is the same stand-in, which is not a curve.
    const std::vector<double> read = LossesRead(r);
    const auto differs = [&](double v) { return v != read.front(); };
    if (std::any_of(read.begin(), read.end(), differs)) losses.push_back(loss);
    times.push_back(time);
    Series validation{runs[i]->Title(), {}, static_cast<int>(i % 8)};
    for (const report::Validation& v : r.validations()) validation.values.push_back(v.loss());
    if (validation.values.size() > 1 && !losses.empty()) validations.push_back(validation);
  }
  const std::string loss = Chart(losses, "loss", false, [](double v) { return absl::StrFormat("%.3g", v); });
  const std::string time = Chart(times, "time of a step (band: interval, dashes: median)", true, SecondsText);
  const std::string validation =
      Chart(validations, "validation loss, by validation", false, [](double v) { return absl::StrFormat("%.3g", v); });
  if (loss.empty() && time.empty()) return "";
  return absl::StrCat("<h2>Training</h2><div class=two><div>", time, "</div><div>", loss, "</div></div>\n", validation,
                      "\n");
}

std::string Collectives(const Runs& runs) {
  std::map<std::pair<std::string, std::string>, std::vector<const report::Collective*>> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const report::Collective& c : runs[i]->report.collectives()) {
      auto& row = rows[{c.operation(), c.group()}];
      row.resize(runs.size());
      row[i] = &c;
    }
  }
  if (rows.empty()) return "";
  std::string t =
      "<h2>Communication of rank 0, whole run</h2><div class=wrap><table><tr><th>operation</th><th "
      "class=left>group</th>";
  for (const RunData* run : runs) {
    const std::string title = runs.size() == 1          ? ""
                              : !run->apart.empty()     ? absl::StrCat(", ", Escape(run->apart))
                              : run->report.predicted() ? ", predicted"
                                                        : ", measured";
    absl::StrAppend(&t, "<th>calls", title, "</th><th>bytes", title, "</th><th>time per call", title, "</th><th>algbw",
                    title, "</th>");
  }
  t += "</tr>\n";
  for (const auto& [key, cells] : rows) {
    absl::StrAppend(&t, "<tr><td>", Escape(key.first), "</td><td class=left>", Escape(key.second), "</td>");
    for (const report::Collective* c : cells) {
      if (c == nullptr) {
        t += "<td>-</td><td>-</td><td>-</td><td>-</td>";
        continue;
      }
      const double bytes = static_cast<double>(c->bytes()), calls = static_cast<double>(c->count());
      absl::StrAppend(&t, "<td>", c->count(), "</td><td>", BytesText(bytes), "</td><td>",
                      calls > 0 ? SecondsText(c->seconds() / calls) : "-", "</td><td>",
                      c->seconds() > 0 && bytes > 0 ? absl::StrFormat("%.2f GB/s", bytes / c->seconds() / 1e9) : "-",
                      "</td>");
    }
    t += "</tr>\n";
  }
  return t + "</table></div>\n";
}

// Of elastic runs: who trained when, and what a change of members cost.
std::string Generations(const Runs& runs) {
  std::string text;
  for (const RunData* run : runs) {
    const report::Report& r = run->report;
    if (r.generations_size() == 0) continue;
    absl::StrAppend(&text, "<h2>Generations: ", Escape(run->Title()), "</h2>");
    if (std::isfinite(r.goodput()))
      absl::StrAppend(&text, "<p>Goodput ", ShareText(r.goodput()), " of ", SecondsText(r.trained_seconds()), "</p>");
    text +=
        "<div class=wrap><table class=generations><tr><th>generation</th><th>members</th><th>dp</th><th>from step</th>"
        "<th>began at</th><th>to detect</th><th>to reform</th><th>to recover</th><th>lost steps</th>"
        "<th class=left>state from</th><th class=left>because</th></tr>\n";
    for (const report::Generation& g : r.generations()) {
      text +=
          Row(absl::StrCat(g.number()),
              {absl::StrCat(g.members_size()), absl::StrCat(g.dp()), absl::StrCat(g.first_step()),
               SecondsText(g.began_seconds()), SecondsText(g.detect_seconds()), SecondsText(g.reform_seconds()),
               SecondsText(g.recover_seconds()), absl::StrCat(g.lost_steps()), Escape(g.from()), Escape(g.cause())});
    }
    text += "</table></div>\n";
  }
  return text;
}

std::string Notes(const Runs& runs) {
  std::string text;
  for (const RunData* run : runs) {
    if (run->report.notes_size() == 0) continue;
    absl::StrAppend(&text, "<h2>Notes: ", Escape(run->Title()), "</h2><ul>");
    for (const std::string& note : run->report.notes()) absl::StrAppend(&text, "<li>", Escape(note), "</li>");
    text += "</ul>\n";
  }
  return text;
}

}  // namespace

std::string PageOf(const Runs& runs) {
  const std::string heading = Heading(runs), summary = Summary(runs), charts = Charts(runs),
                    tables = Generations(runs) + Collectives(runs) + Notes(runs);
  const std::string body =
      Filled(kRunsBody, {{"heading", heading}, {"summary", summary}, {"charts", charts}, {"tables", tables}});
  return WholePage(runs[0]->report.name(), body, PageData(runs));
}

}  // namespace twofold::page
