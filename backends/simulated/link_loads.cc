#include "backends/simulated/link_loads.h"

#include <string>

namespace twofold {

void AddLinkLoads(sim::Engine& engine, outcome::Outcome& outcome) {
  if (engine.links() == nullptr) return;
  const LinkLoads loads = engine.LinkLoadsOf();
  if (loads.rows.empty()) return;
  for (const std::string& note : engine.links()->NotesOn(loads)) outcome.add_notes(note);
  outcome::LinkLoads& out = *outcome.mutable_links();
  out.set_begin(loads.begin), out.set_width(loads.width);
  out.set_left_out(loads.left_out), out.set_idle(loads.idle);
  *out.mutable_pictures() = loads.pictures;
  for (const LinkLoads::Row& row : loads.rows) {
    outcome::LinkRow& r = *out.add_rows();
    r.set_link(row.link), r.set_kind(row.kind), r.set_links(row.links), r.set_bandwidth(row.bandwidth);
    r.mutable_bytes()->Add(row.bytes.begin(), row.bytes.end());
    for (const LinkLoads::Flow& flow : row.flows) {
      outcome::LinkFlow& f = *r.add_flows();
      f.set_operation(flow.operation), f.set_group(flow.group), f.set_phases(flow.phases), f.set_bytes(flow.bytes);
    }
  }
}

LinkLoads LinkLoadsOf(const outcome::LinkLoads& in) {
  LinkLoads loads{.begin = in.begin(),
                  .width = in.width(),
                  .rows = {},
                  .left_out = in.left_out(),
                  .idle = in.idle(),
                  .pictures = in.pictures()};
  for (const outcome::LinkRow& r : in.rows()) {
    LinkLoads::Row& row = loads.rows.emplace_back();
    row = {.link = r.link(),
           .kind = r.kind(),
           .links = r.links(),
           .bandwidth = r.bandwidth(),
           .bytes = {r.bytes().begin(), r.bytes().end()}};
    for (const outcome::LinkFlow& f : r.flows())
      row.flows.push_back({.operation = f.operation(), .group = f.group(), .phases = f.phases(), .bytes = f.bytes()});
  }
  return loads;
}

}  // namespace twofold
