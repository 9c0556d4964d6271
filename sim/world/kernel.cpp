#include "sim/world/kernel.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <unordered_map>

#include "core/base/check.h"
#include "sim/world/sim_time.h"
#include "sim/world/simgrid_api.h"

namespace batchflow::world {

namespace {

using simgrid_api::Timer;
using simgrid_api::s4u::Activity;
using simgrid_api::s4u::ActivityPtr;
using simgrid_api::s4u::Comm;
using simgrid_api::s4u::Engine;
using simgrid_api::s4u::Exec;
using simgrid_api::s4u::ExecPtr;

constexpr double kNanosecond_s = 1e-9;

// SimGrid reads an argument vector; it gets a name and nothing else.
Engine& make_engine() {
  static int argc = 1;
  static char name[] = "batchflow-sim";
  static char* argv[] = {name, nullptr};
  // SimGrid would end the process at an interrupt, which the caller handles.
  const auto on_interrupt = std::signal(SIGINT, SIG_DFL);
  static Engine engine(&argc, argv);
  std::signal(SIGINT, on_interrupt);
  xbt_log_control_set("root.thresh:critical");
  // Whatever ends within this time is taken to end together; the default is 10 us.
  simgrid_api::set_time_precision_s(kNanosecond_s);
  // Links share their bandwidth fairly, and nothing else: no factors for protocols, no windows, no
  // traffic back.
  for (const char* setting : {"network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
                              "cpu/optim:Lazy", "network/optim:Lazy"}) {
    Engine::set_config(setting);
  }
  return engine;
}

}  // namespace

struct Kernel::SimGrid {
  struct Flow {
    FlowId id;
    ActivityPtr activity;
    Then then;
    ExecPtr work = nullptr;  // the same activity, if it is on a host
    double weight = 1;
    bool nudged = false;
  };

  explicit SimGrid(Kernel& kernel)
      : engine(make_engine()), zone(simgrid_api::make_root_zone(engine)) {
    simgrid_api::watch_completions([this, &kernel](const Activity& activity) {
      const auto flow = flow_of.find(&activity);
      if (flow == flow_of.end()) return;  // cancelled
      finished.push_back(flow->second);
      flow_of.erase(flow);
      wake(kernel);
    });
  }

  FlowId add(FlowId id, ActivityPtr activity, Then then) {
    flow_of.emplace(activity.get(), id);
    flows.emplace(id, Flow{id, std::move(activity), std::move(then)});
    return id;
  }

  // Ends this instant when all of its completions have arrived.
  void wake(Kernel& kernel) {
    if (waking) return;
    waking = true;
    Timer::set(Engine::get_clock(), [this, &kernel] {
      waking = false;
      kernel.settle();
    });
  }

  // An activity must outlive its callbacks, also the second one of a cancelled activity. So it is
  // destroyed when time has gone on.
  void bury(ActivityPtr activity, Instant when) {
    if (when != died) {
      grave.clear();
      died = when;
    }
    grave.push_back(std::move(activity));
  }

  Engine& engine;
  simgrid_api::s4u::NetZone* zone;
  std::unordered_map<const Activity*, FlowId> flow_of;  // looked up, never walked
  std::unordered_map<FlowId, Flow> flows;               // under way; walked by number alone
  std::vector<FlowId> finished;
  std::vector<ActivityPtr> grave;
  Instant died{};
  Timer* head = nullptr;
  Instant head_when{};
  bool waking = false;
};

Kernel::Kernel() : simgrid_(std::make_unique<SimGrid>(*this)), zone_(*simgrid_->zone) {}

Kernel::~Kernel() = default;

bool Kernel::later(const Timed& a, const Timed& b) {
  return a.when != b.when ? a.when > b.when : a.serial > b.serial;
}

void Kernel::after(Duration delay, Then then) {
  at(now_ + std::max(delay, Duration(0)), std::move(then));
}

void Kernel::at(Instant when, Then then) {
  timers_.push_back({std::max(when, now_), ++serials_, std::move(then)});
  std::push_heap(timers_.begin(), timers_.end(), later);
}

FlowId Kernel::start_work(simgrid::s4u::Host& host, const Work& work, Then then) {
  BF_CHECK(work.work > 0);
  const auto exec = Exec::init();
  exec->set_flops_amount(work.work);
  exec->set_host(&host);
  exec->set_priority(work.weight);
  if (work.bound > 0) exec->set_bound(work.bound);
  const FlowId id = simgrid_->add(++flows_started_, exec, std::move(then));
  simgrid_->flows.at(id).work = exec;
  simgrid_->flows.at(id).weight = work.weight;
  exec->start();
  return id;
}

FlowId Kernel::start_transfer(simgrid::s4u::Host& from, simgrid::s4u::Host& to, double bytes,
                              Then then) {
  BF_CHECK(bytes > 0);
  const auto comm = Comm::sendto_init(&from, &to);
  comm->set_payload_size(static_cast<std::uint64_t>(std::ceil(bytes)));
  const FlowId id = simgrid_->add(++flows_started_, comm, std::move(then));
  comm->start();
  return id;
}

void Kernel::cancel(FlowId id) {
  const auto found = simgrid_->flows.find(id);
  if (found == simgrid_->flows.end()) return;
  const ActivityPtr activity = found->second.activity;
  simgrid_->flows.erase(found);
  simgrid_->bury(activity, now_);
  if (simgrid_->flow_of.erase(activity.get()) == 0) return;  // it has just ended
  activity->cancel();
}

// SimGrid asks for a host's speed when it shares the host out, which it does when a flow comes,
// goes or gets another weight. So the weight becomes the next number up, and goes back the next
// time. (SimGrid 3.32 loses a flow that is paused and resumed at once.)
void Kernel::speeds_changed() {
  for (const FlowId id : under_way()) {
    SimGrid::Flow& flow = simgrid_->flows.at(id);
    if (!flow.work || simgrid_->flow_of.count(flow.activity.get()) == 0) continue;
    flow.nudged = !flow.nudged;
    flow.work->update_priority(flow.nudged ? std::nextafter(flow.weight, 2 * flow.weight)
                                           : flow.weight);
  }
}

std::size_t Kernel::pending() const {
  return timers_.size() + simgrid_->flows.size();
}

std::vector<FlowId> Kernel::under_way() const {
  std::vector<FlowId> flows;
  for (const auto& [id, flow] : simgrid_->flows) flows.push_back(id);
  std::sort(flows.begin(), flows.end());
  return flows;
}

// ---------------------------------------------------------------------------- an instant ----

void Kernel::begin() {
  if (begun_) return arm();  // what was asked for while it stood still
  begun_ = true;
  simgrid_->zone->seal();
  settle();
}

void Kernel::run() {
  begin();
  simgrid_->engine.run();
}

void Kernel::run_until(Instant when) {
  begin();
  simgrid_->engine.run_until(seconds(when));
}

void Kernel::stop() {
  stopped_ = true;
  for (const FlowId id : under_way()) cancel(id);
}

void Kernel::settle() {
  if (stopped_) return;  // completions that still come change no time
  now_ = std::max(now_, instant_of(Engine::get_clock()));
  while (!stopped_ && something_due()) {
    run_finished();
    run_due_timers();
    if (each_instant_) each_instant_();
  }
  arm();
}

bool Kernel::something_due() const {
  return !simgrid_->finished.empty() || (!timers_.empty() && timers_.front().when <= now_);
}

void Kernel::run_finished() {
  std::vector<FlowId> finished;
  finished.swap(simgrid_->finished);
  std::sort(finished.begin(), finished.end());
  for (const FlowId id : finished) {
    const auto found = simgrid_->flows.find(id);
    if (found == simgrid_->flows.end()) continue;  // cancelled at the instant of its end
    const Then then = std::move(found->second.then);
    simgrid_->bury(std::move(found->second.activity), now_);
    simgrid_->flows.erase(found);
    then();
  }
}

// Runs the timers that were set before this round began.
void Kernel::run_due_timers() {
  const std::uint64_t last = serials_;
  while (!timers_.empty() && timers_.front().when <= now_ && timers_.front().serial <= last) {
    std::pop_heap(timers_.begin(), timers_.end(), later);
    const Then then = std::move(timers_.back().then);
    timers_.pop_back();
    then();
  }
}

// SimGrid runs timers before it reports what has ended at the same time. So that both belong to one
// instant, the timers wait for the next possible time, unless nothing can end.
void Kernel::head_is_due() {
  simgrid_->head = nullptr;
  if (stopped_) return;
  now_ = std::max(now_, simgrid_->head_when);
  if (simgrid_->flows.empty()) return settle();
  const double next = std::nextafter(Engine::get_clock(), std::numeric_limits<double>::infinity());
  Timer::set(next, [this] { settle(); });
}

void Kernel::arm() {
  const bool any = !stopped_ && !timers_.empty();
  if (simgrid_->head != nullptr) {
    if (any && simgrid_->head_when == timers_.front().when) return;
    simgrid_->head->remove();
    simgrid_->head = nullptr;
  }
  if (!any) return;
  simgrid_->head_when = timers_.front().when;
  simgrid_->head = Timer::set(std::max(seconds(simgrid_->head_when), Engine::get_clock()),
                              [this] { head_is_due(); });
}

}  // namespace batchflow::world
