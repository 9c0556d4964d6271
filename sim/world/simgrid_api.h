// The only file that knows which SimGrid it is compiled with: 3.32 to 4.x differ in a few names.
//
// Included by the files that talk to SimGrid, and by no header. Everything is used from SimGrid's
// maestro context: there are no actors.
#pragma once

#include <simgrid/s4u.hpp>
// After s4u.hpp, which it needs in 3.32.
#include <simgrid/version.h>
#include <xbt/log.h>
#include <simgrid/kernel/Timer.hpp>

#include <functional>
#include <string>
#include <vector>

namespace batchflow::world::simgrid_api {

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

// Calls `ended` whenever an activity of a kind that we start is over; for a cancelled activity
// twice.
inline void watch_completions(std::function<void(const s4u::Activity&)> ended) {
#if SIMGRID_VERSION >= 33400
  s4u::Exec::on_completion_cb([ended](const s4u::Exec& exec) { ended(exec); });
  s4u::Comm::on_completion_cb([ended](const s4u::Comm& comm) { ended(comm); });
#else
  s4u::Activity::on_completion_cb([ended](const s4u::Activity& activity) { ended(activity); });
#endif
}

inline void set_time_precision_s(double seconds) {
#if SIMGRID_VERSION >= 33400
  s4u::Engine::set_config("precision/timing", seconds);
#else
  s4u::Engine::set_config("surf/precision", seconds);
#endif
}

// A zone is a star: its content hangs on its middle, and a route goes up to the middle and down
// again.
inline s4u::NetZone* make_root_zone([[maybe_unused]] s4u::Engine& engine) {
#if SIMGRID_VERSION >= 40000
  return engine.get_netzone_root()->add_netzone_star("cluster");
#else
  return s4u::create_star_zone("cluster");
#endif
}

inline s4u::NetZone* add_zone(s4u::NetZone& parent, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return parent.add_netzone_star(name);
#else
  return s4u::create_star_zone(name)->set_parent(&parent);
#endif
}

inline s4u::Host* add_host(s4u::NetZone& zone, const std::string& name, double speed) {
#if SIMGRID_VERSION >= 40000
  return zone.add_host(name, speed);
#else
  return zone.create_host(name, speed);
#endif
}

inline simgrid::kernel::routing::NetPoint* add_router(s4u::NetZone& zone, const std::string& name) {
#if SIMGRID_VERSION >= 40000
  return zone.add_router(name);
#else
  return zone.create_router(name);
#endif
}

inline s4u::SplitDuplexLink* add_duplex_link(s4u::NetZone& zone, const std::string& name,
                                             double bytes_per_s) {
#if SIMGRID_VERSION >= 40000
  return zone.add_split_duplex_link(name, bytes_per_s);
#else
  return zone.create_split_duplex_link(name, bytes_per_s);
#endif
}

// Attaches `what` to the middle of `zone` by these links; without links there is no limit. Where
// `what` is a zone, `gateway` is its middle.
inline void hang(s4u::NetZone& zone, simgrid::kernel::routing::NetPoint* what,
                 simgrid::kernel::routing::NetPoint* gateway,
                 const std::vector<s4u::LinkInRoute>& route) {
#if SIMGRID_VERSION >= 40000
  zone.add_route(what, nullptr, route, true);
#else
  zone.add_route(what, nullptr, gateway, nullptr, route, true);
#endif
}

}  // namespace batchflow::world::simgrid_api
