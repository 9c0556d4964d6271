#include "policies/plugin/hosted.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "core/base/config_value.h"
#include "core/base/zeroed_memory.h"
#include "policies/plugin/fallback.h"
#include "policies/plugin/layout.h"
#include "policies/plugin/names.h"

namespace batchflow::plugin {
namespace {

// ----------------------------------------------------------------------------------- failures ----

std::atomic<bool> any_failure{false};
std::mutex failures_mutex;
std::vector<Failure>& failures() {
  static std::vector<Failure> all;
  return all;
}

std::function<void(Failure&)>& failure_listener() {
  static std::function<void(Failure&)> tell;
  return tell;
}

// What an instance of any kind has.
class Hosting {
 public:
  // `once`: of one instance, which is not called any more once it has failed.
  explicit Hosting(const HostedPolicy& policy, bool once = true) : policy_(policy), once_(once) {}

  void fail(std::string_view why) {
    if (std::exchange(failed_, once_)) return;
    Failure failure{policy_.text(), std::string(why.substr(0, 500)), "", ""};
    const std::lock_guard lock(failures_mutex);
    if (failure_listener()) failure_listener()(failure);
    failures().push_back(std::move(failure));
    any_failure.store(true, std::memory_order_release);
  }
  bool failed() const { return failed_; }
  const HostedPolicy& policy() const { return policy_; }

  // Calls the plugin. An instance that has failed is not called.
  template <class Call>
  void tell(Call call) {
    if (failed_) [[unlikely]]
      return;
    try {
      call();
    } catch (...) {
      fail("an exception left it; the functions of a plugin must not throw");
    }
  }
  template <class Answer, class Call>
  Answer ask(Answer otherwise, Call call) {
    Answer answer = otherwise;
    tell([&] { answer = call(); });
    return failed_ ? otherwise : answer;
  }
  // An answer out of a list.
  template <class Answer, class Call>
  Answer ask_one_of(Answer otherwise, Answer last, const char* question, Call call) {
    const auto most = static_cast<std::uint32_t>(last);
    const std::uint32_t answer = ask(static_cast<std::uint32_t>(otherwise), call);
    if (answer > most) [[unlikely]] {
      fail(fmt::format("{} answered {}, and the greatest answer is {}", question, answer, most));
      return otherwise;
    }
    return static_cast<Answer>(answer);
  }

 private:
  const HostedPolicy& policy_;
  const bool once_;
  bool failed_ = false;
};

// ----------------------------------------------------------------------------------- the host ----

void* grow_memory(void* data, std::uint64_t* bytes, std::uint64_t wanted) {
  try {
    ZeroedMemory memory = ZeroedMemory::taken(data, *bytes);
    try {
      memory.grow(wanted);
    } catch (const std::bad_alloc&) {
      memory.give_up();
      return nullptr;
    }
    *bytes = memory.bytes();
    return memory.give_up();
  } catch (...) {
    return nullptr;
  }
}
void free_memory(void* data, std::uint64_t bytes) {
  ZeroedMemory::taken(data, bytes);
}
void failed(void* instance, const char* why) {
  if (instance != nullptr) static_cast<Hosting*>(instance)->fail(why);
}

// ------------------------------------------------------------------------------------ adaptors ---

// The parameters of a policy, as a plugin is shown them.
class Values {
 public:
  explicit Values(const Parameters& parameters) {
    for (const Parameters::Value& one : parameters.values())
      values_.push_back({one.text.c_str(), one.integer, one.number, one.flag});
  }
  void show(bf_policy_context& context) const {
    context.parameters = values_.data();
    context.parameter_count = values_.size();
  }

 private:
  std::vector<bf_parameter_value> values_;
};

bf_policy_context context_of(const engine::PolicyContext& context) {
  bf_policy_context made{};
  made.seed = context.random.key();
  return made;
}
bf_policy_context context_of(const engine::EvictionContext& context) {
  bf_policy_context made{};
  made.seed = context.random.key();
  made.items = context.items;
  made.capacity = context.capacity;
  made.dataset = context.dataset.value;
  made.form = static_cast<std::uint8_t>(context.form);
  made.tier = static_cast<std::uint8_t>(context.tier);
  return made;
}

template <class Interface>
class Hosted : public Interface {
 public:
  template <class Context>
  explicit Hosted(const Context& context)
      : hosting_(*static_cast<const HostedPolicy*>(context.plugin)) {
    const HostedPolicy& policy = hosting_.policy();
    const Values values(context.parameters);
    bf_policy_context made = context_of(context);
    made.instance = &hosting_;
    values.show(made);
    hosting_.tell([&] { policy_ = policy.common.make(policy.user, &made); });
    if (policy_ == nullptr) hosting_.fail("it could not be made");
  }
  Hosted(const Hosted&) = delete;
  ~Hosted() override {
    // What has failed may be broken inside: it is left alone.
    hosting_.tell([&] { hosting_.policy().common.end(policy_); });
  }

  std::size_t save(std::span<std::byte> room) const override {
    return hosting_.ask(std::uint64_t{0}, [&] {
      return hosting_.policy().common.save(policy_, room.data(), room.size());
    });
  }
  void restore(std::span<const std::byte> saved) override {
    hosting_.tell([&] { hosting_.policy().common.restore(policy_, saved.data(), saved.size()); });
  }

 protected:
  mutable Hosting hosting_;
  void* policy_ = nullptr;
};

Instant instant(std::int64_t count) {
  return Instant(Duration(count));
}
std::int64_t count_of(Instant at) {
  return at.time_since_epoch().count();
}

template <class C, class Cpp>
const C* as_c(const Cpp& view) {
  return reinterpret_cast<const C*>(&view);
}
template <class C, class Cpp>
const C* as_c(std::span<const Cpp> views) {
  return reinterpret_cast<const C*>(views.data());
}

class HostedAllocation final : public Hosted<engine::AllocationPolicy> {
 public:
  explicit HostedAllocation(const engine::PolicyContext& context)
      : Hosted(context), f_(hosting_.policy().allocation) {}

  void allocate(const engine::PlaceView& place, std::span<Slots> slots) override {
    const bf_place_view view{{place.place.node.value, static_cast<std::uint8_t>(place.place.tier),
                              0, place.place.device},
                             place.capacity_bytes,
                             as_c<bf_share_view>(place.shares),
                             place.shares.size(),
                             count_of(place.now),
                             place.workers,
                             0,
                             place.busy,
                             place.waits_for_reads,
                             place.store_bytes_per_s};
    hosting_.tell([&] { f_.allocate(policy_, &view, slots.data()); });
    if (hosting_.failed()) fallback::allocate(place, slots);
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  bool wants_measures() const override {
    return hosting_.ask(0u, [&] { return f_.wants_measures(policy_); }) != 0;
  }
  engine::Forecast forecast() const override {
    engine::Forecast answer;
    hosting_.tell([&] { f_.forecast(policy_, reinterpret_cast<bf_forecast*>(&answer)); });
    return hosting_.failed() ? engine::Forecast{} : answer;
  }

 private:
  const bf_allocation_functions& f_;
};

class HostedEviction final : public Hosted<engine::EvictionPolicy> {
 public:
  explicit HostedEviction(const engine::EvictionContext& context)
      : Hosted(context),
        f_(hosting_.policy().eviction),
        unstable_(hosting_.policy().eviction_unstable) {}

  void hit(const engine::Access& access) override {
    hosting_.tell([&] { f_.hit(policy_, as_c<bf_access>(access)); });
  }
  engine::Admission missed(const engine::Access& access) override {
    return hosting_.ask_one_of(engine::Admission::insert, engine::Admission::trim_and_insert,
                               "missed",
                               [&] { return f_.missed(policy_, as_c<bf_access>(access)); });
  }
  void inserted(const engine::Access& access) override {
    hosting_.tell([&] { f_.inserted(policy_, as_c<bf_access>(access)); });
  }
  ItemId victim(const engine::Access& newcomer) override {
    return ItemId(
        hosting_.ask(BF_NO_ITEM, [&] { return f_.victim(policy_, as_c<bf_access>(newcomer)); }));
  }
  void removed(ItemId item, engine::Removal why) override {
    hosting_.tell([&] { f_.removed(policy_, item.value, static_cast<std::uint32_t>(why)); });
  }
  void pinned(ItemId item) override {
    hosting_.tell([&] { f_.pinned(policy_, item.value); });
  }
  void unpinned(ItemId item) override {
    hosting_.tell([&] { f_.unpinned(policy_, item.value); });
  }
  void resized(Slots capacity) override {
    hosting_.tell([&] { f_.resized(policy_, capacity); });
  }
  void grow(std::size_t items) override {
    hosting_.tell([&] { f_.grow(policy_, items); });
  }
  void forget(ItemId item) override {
    hosting_.tell([&] { f_.forget(policy_, item.value); });
  }
  void needed(ItemId item, std::uint32_t jobs) override {
    hosting_.tell([&] { f_.needed(policy_, item.value, jobs); });
  }
  void scored(ItemId item, float score) override {
    hosting_.tell([&] { f_.scored(policy_, item.value, score); });
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    hosting_.tell([&] { f_.epoch_began(policy_, job.value, epoch); });
  }
  void prefetch(ItemId item) const override {
    if (unstable_.prefetch != nullptr)
      hosting_.tell([&] { unstable_.prefetch(policy_, item.value); });
  }
  engine::EarlyRead read_early(const engine::Access& access) override {
    return hosting_.ask_one_of(engine::EarlyRead::no, engine::EarlyRead::stop, "read_early", [&] {
      return unstable_.read_early(policy_, as_c<bf_access>(access));
    });
  }

 private:
  const bf_eviction_functions f_;  // copies: a request goes through several of them
  const bf_eviction_unstable unstable_;
};

class HostedSelection final : public Hosted<engine::SelectionPolicy> {
 public:
  explicit HostedSelection(const engine::PolicyContext& context)
      : Hosted(context),
        f_(hosting_.policy().selection),
        unstable_(hosting_.policy().selection_unstable) {}

  std::size_t choose(const engine::SelectionView& view) override {
    const bf_selection_view shown{view.job.value,
                                  static_cast<std::uint8_t>(view.order),
                                  {},
                                  as_c<bf_selection_candidate>(view.candidates),
                                  view.candidates.size(),
                                  count_of(view.now),
                                  view.user};
    const std::uint64_t choice =
        hosting_.ask(std::uint64_t{BF_NO_CHOICE}, [&] { return f_.choose(policy_, &shown); });
    return hosting_.failed() ? fallback::choose(view) : choice;
  }
  bool looks_behind_ready() const override {
    return hosting_.ask(1u, [&] { return f_.looks_behind_ready(policy_); }) != 0;
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  std::uint32_t blocks_to_choose_from() const override {
    return hosting_.ask(0u, [&] { return unstable_.blocks_to_choose_from(policy_); });
  }
  void choose_samples(const engine::SamplesView& view, std::span<std::uint32_t> picks) override {
    const bf_samples_view shown{view.job.value,
                                view.epoch,
                                view.left,
                                as_c<bf_sample_candidate>(view.candidates),
                                view.candidates.size(),
                                count_of(view.now)};
    hosting_.tell([&] { unstable_.choose_samples(policy_, &shown, picks.data(), picks.size()); });
    if (hosting_.failed()) fallback::choose_samples(picks);
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    hosting_.tell(
        [&] { f_.weigh(policy_, job.value, scores.data(), weights.data(), scores.size()); });
    if (hosting_.failed()) fallback::weigh(scores, weights);
  }
  void epoch_began(JobId job, std::uint32_t epoch) override {
    hosting_.tell([&] { f_.epoch_began(policy_, job.value, epoch); });
  }

 private:
  const bf_selection_functions& f_;
  const bf_selection_unstable& unstable_;
};

class HostedDispatch final : public Hosted<engine::DispatchPolicy> {
 public:
  explicit HostedDispatch(const engine::PolicyContext& context)
      : Hosted(context),
        f_(hosting_.policy().dispatch),
        unstable_(hosting_.policy().dispatch_unstable) {}

  std::size_t next(const engine::DispatchView& view) override {
    const bf_dispatch_view shown{count_of(view.now), as_c<bf_work_candidate>(view.candidates),
                                 view.candidates.size()};
    const std::uint64_t choice =
        hosting_.ask(std::uint64_t{BF_NO_CHOICE}, [&] { return f_.next(policy_, &shown); });
    return hosting_.failed() ? fallback::next(view) : choice;
  }
  Instant ask_again() override {
    return instant(hosting_.ask(BF_NEVER, [&] { return f_.ask_again(policy_); }));
  }
  bool chooses_nodes() const override {
    return hosting_.ask(0u, [&] { return unstable_.chooses_nodes(policy_); }) != 0;
  }
  std::size_t choose_node(const engine::NodesView& view) override {
    const bf_nodes_view shown{as_c<bf_work_candidate>(view.work),
                              as_c<bf_node_candidate>(view.candidates), view.candidates.size()};
    return hosting_.ask(std::uint64_t{0}, [&] { return unstable_.choose_node(policy_, &shown); });
  }

 private:
  const bf_dispatch_functions& f_;
  const bf_dispatch_unstable& unstable_;
};

class HostedScaling final : public Hosted<engine::ScalingPolicy> {
 public:
  explicit HostedScaling(const engine::PolicyContext& context)
      : Hosted(context), f_(hosting_.policy().scaling) {}

  std::uint32_t workers(const engine::NodeView& view) override {
    return hosting_.ask(fallback::workers(view),
                        [&] { return f_.workers(policy_, as_c<bf_node_view>(view)); });
  }
  std::uint32_t depth(const engine::JobView& view) override {
    return hosting_.ask(fallback::depth(view),
                        [&] { return f_.depth(policy_, as_c<bf_job_view>(view)); });
  }

 private:
  const bf_scaling_functions& f_;
};

// What the plugin makes as an object of the engine's own classes, or an adaptor to its tables.
template <class Interface, class Adaptor, class Context>
std::unique_ptr<Interface> make_hosted(const Context& context) {
  const auto& policy = *static_cast<const HostedPolicy*>(context.plugin);
  if (policy.common.object == nullptr) return std::make_unique<Adaptor>(context);
  const Values values(context.parameters);
  bf_policy_context made = context_of(context);
  made.instance = policy.direct();
  values.show(made);
  std::unique_ptr<Interface> object(
      static_cast<Interface*>(policy.common.object(policy.user, &made)));
  // An adaptor that finds the same says so, and answers in its place.
  return object ? std::move(object) : std::make_unique<Adaptor>(context);
}

// -------------------------------------------------------------------------------------- tables ---

// A copy of a table, of which the plugin may have less or more than this program.
template <class Table>
Table table_of(const void* table, const char* what) {
  Table copy{};
  std::uint32_t bytes = 0;
  if (table != nullptr) std::memcpy(&bytes, table, sizeof(bytes));
  if (bytes < sizeof(bytes)) throw ConfigError(fmt::format("it has no table of {}", what));
  std::memcpy(static_cast<void*>(&copy), table, std::min<std::size_t>(bytes, sizeof(Table)));
  return copy;
}

template <class Function, class Default>
void default_to(Function& function, Default otherwise) {
  if (function == nullptr) function = otherwise;
}
template <class Function>
void must_have(Function function, const char* name) {
  if (function == nullptr) throw ConfigError(fmt::format("it has no function {}", name));
}

std::string_view text_or_refuse(const char* text, std::size_t most, const char* what) {
  if (text == nullptr) throw ConfigError(fmt::format("it gives no {}", what));
  const std::size_t length = strnlen(text, most + 1);
  if (length > most) throw ConfigError(fmt::format("a {} is longer than {} bytes", what, most));
  return {text, length};
}

constexpr std::size_t kParametersMost = 64;

std::string_view name_or_refuse(const char* text, const char* what) {
  const std::string_view name = text_or_refuse(text, kNameMost, what);
  if (!is_policy_name(name)) {
    throw ConfigError(
        fmt::format("'{}' is no {}; use small letters, digits and hyphens", name, what));
  }
  return name;
}

}  // namespace

const bf_policy_host& policy_host() {
  static const bf_policy_host host = [] {
    bf_policy_host made{};
    made.bytes = sizeof(bf_policy_host);
    made.version_least = BF_POLICY_VERSION_LEAST;
    made.version = BF_POLICY_VERSION;
    made.unstable = BF_POLICY_UNSTABLE;
    made.struct_bytes[BF_STRUCT_ACCESS] = sizeof(bf_access);
    made.struct_bytes[BF_STRUCT_SHARE_VIEW] = sizeof(bf_share_view);
    made.struct_bytes[BF_STRUCT_PLACE_VIEW] = sizeof(bf_place_view);
    made.struct_bytes[BF_STRUCT_FORECAST] = sizeof(bf_forecast);
    made.struct_bytes[BF_STRUCT_SELECTION_CANDIDATE] = sizeof(bf_selection_candidate);
    made.struct_bytes[BF_STRUCT_SELECTION_VIEW] = sizeof(bf_selection_view);
    made.struct_bytes[BF_STRUCT_SAMPLE_CANDIDATE] = sizeof(bf_sample_candidate);
    made.struct_bytes[BF_STRUCT_SAMPLES_VIEW] = sizeof(bf_samples_view);
    made.struct_bytes[BF_STRUCT_WORK_CANDIDATE] = sizeof(bf_work_candidate);
    made.struct_bytes[BF_STRUCT_DISPATCH_VIEW] = sizeof(bf_dispatch_view);
    made.struct_bytes[BF_STRUCT_NODE_CANDIDATE] = sizeof(bf_node_candidate);
    made.struct_bytes[BF_STRUCT_NODES_VIEW] = sizeof(bf_nodes_view);
    made.struct_bytes[BF_STRUCT_NODE_VIEW] = sizeof(bf_node_view);
    made.struct_bytes[BF_STRUCT_JOB_VIEW] = sizeof(bf_job_view);
    made.struct_bytes[BF_STRUCT_CONTEXT] = sizeof(bf_policy_context);
    made.struct_bytes[BF_STRUCT_PARAMETER_VALUE] = sizeof(bf_parameter_value);
    made.grow_memory = &grow_memory;
    made.free_memory = &free_memory;
    made.failed = &failed;
    return made;
  }();
  return host;
}

HostedPolicy::HostedPolicy(const bf_policy& given, std::uint32_t unstable, std::string from)
    : from_(std::move(from)), entry_{{}, {}, engine::MakeAllocation{}} {
  const auto policy = table_of<bf_policy>(&given, "a policy");
  name_ = name_or_refuse(policy.name, "name of a policy");
  help_ = text_or_refuse(policy.help, 4000, "help");
  const bool settled = unstable == BF_POLICY_UNSTABLE && policy.unstable != nullptr;
  user = policy.user;

  common = table_of<bf_policy_common>(policy.common, "what all policies have");
  must_have(common.make, "make");
  must_have(common.end, "end");
  default_to(common.save, [](void*, void*, std::uint64_t) { return std::uint64_t{0}; });
  default_to(common.restore, [](void*, const void*, std::uint64_t) {});
  if (common.object_version != BF_POLICY_OBJECT || unstable != BF_POLICY_UNSTABLE)
    common.object = nullptr;

  switch (policy.kind) {
    case BF_ALLOCATION:
      entry_.make = &make_hosted<engine::AllocationPolicy, HostedAllocation, engine::PolicyContext>;
      allocation = table_of<bf_allocation_functions>(policy.functions, "allocation");
      must_have(allocation.allocate, "allocate");
      default_to(allocation.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
      default_to(allocation.wants_measures, [](void*) { return 0u; });
      default_to(allocation.forecast, [](void*, bf_forecast*) {});
      break;
    case BF_EVICTION:
      entry_.make = &make_hosted<engine::EvictionPolicy, HostedEviction, engine::EvictionContext>;
      eviction = table_of<bf_eviction_functions>(policy.functions, "eviction");
      default_to(eviction.hit, [](void*, const bf_access*) {});
      default_to(eviction.missed, [](void*, const bf_access*) { return std::uint32_t{BF_INSERT}; });
      must_have(eviction.inserted, "inserted");
      must_have(eviction.victim, "victim");
      must_have(eviction.removed, "removed");
      must_have(eviction.pinned, "pinned");
      must_have(eviction.unpinned, "unpinned");
      must_have(eviction.grow, "grow");
      default_to(eviction.resized, [](void*, std::uint64_t) {});
      default_to(eviction.forget, [](void*, std::uint32_t) {});
      default_to(eviction.needed, [](void*, std::uint32_t, std::uint32_t) {});
      default_to(eviction.scored, [](void*, std::uint32_t, float) {});
      default_to(eviction.epoch_began, [](void*, std::uint32_t, std::uint32_t) {});
      if (settled) eviction_unstable = table_of<bf_eviction_unstable>(policy.unstable, "eviction");
      default_to(eviction_unstable.read_early,
                 [](void*, const bf_access*) { return std::uint32_t{BF_EARLY_NO}; });
      break;
    case BF_SELECTION:
      entry_.make = &make_hosted<engine::SelectionPolicy, HostedSelection, engine::PolicyContext>;
      selection = table_of<bf_selection_functions>(policy.functions, "selection");
      must_have(selection.choose, "choose");
      default_to(selection.looks_behind_ready, [](void*) { return 1u; });
      default_to(selection.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
      default_to(selection.epoch_began, [](void*, std::uint32_t, std::uint32_t) {});
      default_to(selection.weigh, [](void*, std::uint32_t, const float* scores, float* weights,
                                     std::uint64_t count) { std::copy_n(scores, count, weights); });
      if (settled)
        selection_unstable = table_of<bf_selection_unstable>(policy.unstable, "selection");
      default_to(selection_unstable.blocks_to_choose_from, [](void*) { return 0u; });
      default_to(selection_unstable.choose_samples,
                 [](void*, const bf_samples_view*, std::uint32_t* picks, std::uint64_t count) {
                   for (std::uint32_t i = 0; i < count; ++i) picks[i] = i;
                 });
      break;
    case BF_DISPATCH:
      entry_.make = &make_hosted<engine::DispatchPolicy, HostedDispatch, engine::PolicyContext>;
      dispatch = table_of<bf_dispatch_functions>(policy.functions, "dispatch");
      must_have(dispatch.next, "next");
      default_to(dispatch.ask_again, [](void*) { return std::int64_t{BF_NEVER}; });
      if (settled) dispatch_unstable = table_of<bf_dispatch_unstable>(policy.unstable, "dispatch");
      default_to(dispatch_unstable.chooses_nodes, [](void*) { return 0u; });
      default_to(dispatch_unstable.choose_node,
                 [](void*, const bf_nodes_view*) { return std::uint64_t{0}; });
      break;
    case BF_SCALING:
      entry_.make = &make_hosted<engine::ScalingPolicy, HostedScaling, engine::PolicyContext>;
      scaling = table_of<bf_scaling_functions>(policy.functions, "scaling");
      must_have(scaling.workers, "workers");
      must_have(scaling.depth, "depth");
      break;
    default:
      throw ConfigError(fmt::format("there is no kind of policy {}", policy.kind));
  }

  if (policy.parameter_count > kParametersMost)
    throw ConfigError(fmt::format("it has more than {} parameters", kParametersMost));
  const auto keep = [&](std::string_view text) {
    return std::string_view(*texts_.emplace_back(std::make_unique<std::string>(text)));
  };
  for (std::uint32_t i = 0; i < policy.parameter_count; ++i) {
    const auto one = table_of<bf_policy_parameter>(
        policy.parameters == nullptr ? nullptr : policy.parameters[i], "a parameter");
    if (one.type > BF_TEXT) throw ConfigError("a parameter is of no type that there is");
    Parameter parameter;
    parameter.name = keep(text_or_refuse(one.name, 60, "name of a parameter"));
    parameter.type = static_cast<Parameter::Type>(one.type);
    parameter.default_value = keep(text_or_refuse(one.default_value, 1000, "default"));
    parameter.help = keep(text_or_refuse(one.help, 1000, "help of a parameter"));
    parameter.least = one.least;
    parameter.greatest = one.greatest;
    parameters_.push_back(parameter);
    Parameters check(std::span(&parameter, 1));
    check.set(parameter.name, parameter.default_value);
  }
  entry_.name = name_;
  entry_.help = help_;
  entry_.parameters = parameters_;
  entry_.clairvoyant = (policy.flags & BF_CLAIRVOYANT) != 0;
  entry_.next_uses = (policy.flags & BF_NEXT_USES) != 0;
  entry_.reads_early = (policy.flags & BF_READS_EARLY) != 0 && settled;
  entry_.ignores_hits = (policy.flags & BF_IGNORES_HITS) != 0;
  entry_.whole_without_hits = (policy.flags & BF_WHOLE_WITHOUT_HITS) != 0;
  entry_.simulated_only = (policy.flags & BF_SIMULATED_ONLY) != 0;
  entry_.may_starve = (policy.flags & BF_MAY_STARVE) != 0;
  entry_.from = from_;
  entry_.plugin = this;
  direct_ = std::make_shared<Hosting>(*this, false);
}

void* HostedPolicy::direct() const {
  return direct_.get();
}

std::string HostedPolicy::text() const {
  return fmt::format("{} {}@{}", engine::policy_kind_name(entry_.kind()), entry_.name, entry_.from);
}

void tell_of_failures(std::function<void(Failure&)> tell) {
  const std::lock_guard lock(failures_mutex);
  failure_listener() = std::move(tell);
}

std::vector<Failure> take_failures() {
  if (!any_failure.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(failures_mutex);
  any_failure.store(false, std::memory_order_relaxed);
  return std::exchange(failures(), {});
}

void check_failures() {
  const std::vector<Failure> all = take_failures();
  if (all.empty()) return;
  std::string text;
  for (const Failure& one : all)
    text += fmt::format("{}policy {}: {}", text.empty() ? "" : "; ", one.policy, one.why);
  throw std::runtime_error(text);
}

}  // namespace batchflow::plugin
