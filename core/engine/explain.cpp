#include "core/engine/explain.h"

#include <fmt/format.h>

#include <map>
#include <unordered_map>
#include <utility>

#include "core/base/names.h"

namespace batchflow::engine {

namespace {

constexpr std::size_t kCandidatesListed = 8;  // of the candidates a policy chose from

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// What all wrappers have: the listener, and the name of the policy.
class Teller {
 public:
  Teller(const Explain& explain, const PolicyChoice& choice)
      : explain_(explain), kind_(policy_kind_name(choice.entry->kind())), name_(choice.text()) {}
  void tell(std::string what, std::string numbers) const {
    explain_({kind_, name_, std::move(what), std::move(numbers)});
  }

 private:
  const Explain& explain_;
  std::string_view kind_;
  std::string name_;
};

std::string name_of(Place place) {
  return fmt::format("node {} {}", place.node.value, name_of(place.tier));
}

std::string more(std::size_t all) {
  return all > kCandidatesListed ? fmt::format(" and {} more", all - kCandidatesListed) : "";
}

// What all wrappers of a kind's policies have.
template <class Interface>
class Explained : public Interface {
 public:
  Explained(Teller teller, std::unique_ptr<Interface> policy)
      : teller_(std::move(teller)), policy_(std::move(policy)) {}
  std::size_t save(std::span<std::byte> room) const override { return policy_->save(room); }
  void restore(std::span<const std::byte> saved) override { policy_->restore(saved); }

 protected:
  Teller teller_;
  std::unique_ptr<Interface> policy_;
};

class ExplainedAllocation final : public Explained<AllocationPolicy> {
 public:
  using Explained::Explained;

  void allocate(const PlaceView& place, std::span<Slots> slots) override {
    const auto [last, is_new] = forecasts_.try_emplace(place.place);
    tell_outcome(place, last->second);
    policy_->allocate(place, slots);
    last->second = policy_->forecast();
    tell_forecast(place, last->second);
    for (std::size_t i = 0; i < place.shares.size(); ++i) {
      const ShareView& one = place.shares[i];
      if (slots[i] == one.slots_now) continue;
      teller_.tell(
          fmt::format("{}: share {} ({} of dataset {}) {} -> {} slots of {} bytes",
                      name_of(place.place), one.share.value, name_of(one.form), one.dataset.value,
                      one.slots_now, slots[i], one.slot_bytes),
          fmt::format(
              "of {} bytes; promised {}, ahead {}, all would be {}; {} jobs, {} ranks, which want "
              "{:.6g} samples/s and wait {:.3f} of the time; {:.6g} requests/s, hit ratio {:.3f}, "
              "a "
              "sample found saves {:.6g} s of a worker and {:.6g} bytes; workers busy {:.3f}, idle "
              "for reads {:.3f}",
              place.capacity_bytes, one.slots_least, one.slots_ahead, one.slots_all, one.jobs,
              one.ranks, one.wanted_per_s, one.stall, one.requests_per_s, one.hit_ratio,
              one.worker_s, one.store_bytes, place.busy, place.waits_for_reads));
    }
  }
  Instant ask_again() override { return policy_->ask_again(); }
  bool wants_measures() const override { return policy_->wants_measures(); }
  Forecast forecast() const override { return policy_->forecast(); }

 private:
  void tell_forecast(const PlaceView& place, const Forecast& forecast) const {
    if (forecast.busy < 0 && forecast.store_bytes_per_s < 0) return;
    teller_.tell(fmt::format("{}: what it expects", name_of(place.place)),
                 fmt::format("workers busy {:.6g}, now {:.6g}; bytes/s from the store {:.6g}, now "
                             "{:.6g}",
                             forecast.busy, place.busy, forecast.store_bytes_per_s,
                             place.store_bytes_per_s));
  }
  // What came of the last answer for the place.
  void tell_outcome(const PlaceView& place, const Forecast& forecast) const {
    if (forecast.busy < 0 && forecast.store_bytes_per_s < 0) return;
    const auto against = [](double measured, double expected) {
      return expected < 0 ? fmt::format("{:.6g}", measured)
                          : fmt::format("{:.6g} where {:.6g} was expected", measured, expected);
    };
    teller_.tell(fmt::format("{}: what came of it", name_of(place.place)),
                 fmt::format("workers busy {}; bytes/s from the store {}",
                             against(place.busy, forecast.busy),
                             against(place.store_bytes_per_s, forecast.store_bytes_per_s)));
  }

  std::map<Place, Forecast> forecasts_;  // of the last answers
};

class ExplainedSelection final : public Explained<SelectionPolicy> {
 public:
  using Explained::Explained;

  std::size_t choose(const SelectionView& view) override {
    const std::size_t choice = policy_->choose(view);
    std::string numbers = fmt::format("of {}:", view.candidates.size());
    for (std::size_t i = 0; i < std::min(view.candidates.size(), kCandidatesListed); ++i) {
      const SelectionCandidate& one = view.candidates[i];
      numbers += fmt::format(
          " [distance {}, {}, needed by {}]", one.distance,
          one.ready ? fmt::format("ready for {:.6g} s", one.ready_s) : "not ready", one.needed_by);
    }
    const std::string what =
        choice < view.candidates.size()
            ? fmt::format("takes the block at distance {}", view.candidates[choice].distance)
        : choice == kNoChoice ? "takes no block yet"
                              : "names no block there is; the default chooses";
    teller_.tell(fmt::format("job {}: {}", view.job.value, what),
                 numbers + more(view.candidates.size()));
    return choice;
  }
  bool looks_behind_ready() const override { return policy_->looks_behind_ready(); }
  Instant ask_again() override { return policy_->ask_again(); }
  std::uint32_t blocks_to_choose_from() const override { return policy_->blocks_to_choose_from(); }
  void choose_samples(const SamplesView& view, std::span<std::uint32_t> picks) override {
    policy_->choose_samples(view, picks);
    const auto kept = [&](std::uint32_t pick) {
      return pick < view.candidates.size() &&
             (view.candidates[pick].encoded || view.candidates[pick].decoded);
    };
    const auto of_all =
        std::count_if(view.candidates.begin(), view.candidates.end(),
                      [](const SampleCandidate& one) { return one.encoded || one.decoded; });
    teller_.tell(
        fmt::format("job {}: picks {} samples for a block", view.job.value, picks.size()),
        fmt::format("of {}, {} of which are kept; {} of those picked; {} left in epoch {}",
                    view.candidates.size(), of_all, std::count_if(picks.begin(), picks.end(), kept),
                    view.left, view.epoch));
  }
  void weigh(JobId job, std::span<const float> scores, std::span<float> weights) override {
    policy_->weigh(job, scores, weights);
  }
  void epoch_began(JobId job, std::uint32_t epoch) override { policy_->epoch_began(job, epoch); }
};

class ExplainedDispatch final : public Explained<DispatchPolicy> {
 public:
  using Explained::Explained;

  std::size_t next(const DispatchView& view) override {
    const std::size_t choice = policy_->next(view);
    std::string numbers = fmt::format("of {}:", view.candidates.size());
    for (std::size_t i = 0; i < std::min(view.candidates.size(), kCandidatesListed); ++i) {
      const WorkCandidate& one = view.candidates[i];
      const bool never = one.deadline == kNever;
      numbers += fmt::format(
          " [job {} asked {}, last served {}, distance {} of depth {}, needed {}, {} ranks wait, "
          "needed by {}, lead {}, cached {:.3f}, takes {:.6g} s, stall {:.3f}]",
          one.job.value, one.asked, one.last_served, one.distance, one.depth,
          never ? "some time" : fmt::format("in {:.6g} s", seconds_of(one.deadline - view.now)),
          one.waiting, one.needed_by, one.lead, one.cached, one.prepare_s, one.stall_fraction);
    }
    const std::string what =
        choice < view.candidates.size()
            ? fmt::format("starts a block for job {}", view.candidates[choice].job.value)
        : choice == kNoChoice ? "holds all back"
                              : "names no job there is; the default chooses";
    teller_.tell(what, numbers + more(view.candidates.size()));
    return choice;
  }
  Instant ask_again() override { return policy_->ask_again(); }
  bool chooses_nodes() const override { return policy_->chooses_nodes(); }
  std::size_t choose_node(const NodesView& view) override {
    const std::size_t choice = policy_->choose_node(view);
    std::string numbers = fmt::format("of {}:", view.candidates.size());
    for (std::size_t i = 0; i < std::min(view.candidates.size(), kCandidatesListed); ++i) {
      const NodeCandidate& one = view.candidates[i];
      numbers += fmt::format(
          " [node {}: {} ranks, {} blocks for {} workers, {} blocks ahead, keeps {:.3f}, "
          "fetches {} bytes at {} a second behind {}, sends {} at {} behind {}]",
          one.node.value, one.ranks, one.started, one.workers, one.ahead, one.kept, one.to_fetch,
          one.in_per_s, one.coming, one.to_send, one.out_per_s, one.going);
    }
    const std::string where = choice < view.candidates.size()
                                  ? fmt::format("node {}", view.candidates[choice].node.value)
                                  : "no node there is; the default chooses";
    teller_.tell(fmt::format("job {}: its block is made on {}", view.work.job.value, where),
                 numbers + more(view.candidates.size()));
    return choice;
  }
};

// The policy is asked in each step; only a changed answer is reported.
class ExplainedScaling final : public Explained<ScalingPolicy> {
 public:
  using Explained::Explained;

  std::uint32_t workers(const NodeView& view) override {
    const std::uint32_t answer = policy_->workers(view);
    if (answer != view.workers_now) {
      teller_.tell(
          fmt::format("node {}: {} -> {} workers", view.node.value, view.workers_now, answer),
          fmt::format("at most {}, {} busy, {} blocks ready to prepare, one takes {:.6g} s, stall "
                      "{:.3f}",
                      view.workers_most, view.busy, view.ready_to_prepare, view.prepare_s,
                      view.stall_fraction));
    }
    return answer;
  }
  std::uint32_t depth(const JobView& view) override {
    const std::uint32_t answer = policy_->depth(view);
    const auto [told, is_new] = depths_.try_emplace(view.job.value, answer);
    if (is_new || std::exchange(told->second, answer) != answer) {
      teller_.tell(fmt::format("job {}: looks {} blocks ahead", view.job.value, answer),
                   fmt::format("{} ranks, a step takes {:.6g} s and {:.6g} blocks, one {:.6g} s; "
                               "window {}, stall {:.3f}",
                               view.ranks, view.step_s, view.blocks_per_step, view.prepare_s,
                               view.window, view.stall_fraction));
    }
    return answer;
  }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> depths_;  // by job
};

class ExplainedEviction final : public Explained<EvictionPolicy> {
 public:
  ExplainedEviction(Teller teller, std::unique_ptr<EvictionPolicy> policy, std::string where,
                    std::shared_ptr<const ItemNumbers> numbers)
      : Explained(std::move(teller), std::move(policy)),
        where_(std::move(where)),
        numbers_(std::move(numbers)) {}

  void hit(const Access& access) override {
    ++hits_;
    policy_->hit(access);
  }
  Admission missed(const Access& access) override {
    ++misses_;
    const Admission answer = policy_->missed(access);
    if (answer == Admission::bypass) {
      teller_.tell(fmt::format("{}: item {} is not let in", where_, named(access.item)), counts());
    }
    return answer;
  }
  void inserted(const Access& access) override {
    ++residents_;
    policy_->inserted(access);
  }
  ItemId victim(const Access& newcomer) override {
    const ItemId answer = policy_->victim(newcomer);
    const std::string why = newcomer.item.is_none()
                                ? "since it is to be smaller, or for a block"
                                : fmt::format("for item {}", named(newcomer.item));
    teller_.tell(answer.is_none()
                     ? fmt::format("{}: names no item to leave {}", where_, why)
                     : fmt::format("{}: item {} leaves {}", where_, named(answer), why),
                 counts());
    return answer;
  }
  void removed(ItemId item, Removal why) override {
    --residents_;
    policy_->removed(item, why);
  }
  void pinned(ItemId item) override {
    teller_.tell(fmt::format("{}: item {} stays, since it is in use", where_, named(item)),
                 counts());
    policy_->pinned(item);
  }
  void unpinned(ItemId item) override { policy_->unpinned(item); }
  void resized(Slots capacity) override {
    capacity_ = capacity;
    policy_->resized(capacity);
  }
  void grow(std::size_t items) override { policy_->grow(items); }
  void forget(ItemId item) override { policy_->forget(item); }
  void needed(ItemId item, std::uint32_t jobs) override { policy_->needed(item, jobs); }
  void scored(ItemId item, float score) override { policy_->scored(item, score); }
  void epoch_began(JobId job, std::uint32_t epoch) override { policy_->epoch_began(job, epoch); }
  bool wants_announcements() const override { return policy_->wants_announcements(); }
  void announced(std::span<const Access> requests) override { policy_->announced(requests); }
  EarlyRead read_early(const Access& access) override {
    const EarlyRead answer = policy_->read_early(access);
    if (answer == EarlyRead::yes) {
      teller_.tell(
          fmt::format("{}: item {} is read before it is requested", where_, named(access.item)),
          counts());
    }
    return answer;
  }

 private:
  // A policy may lie: what it names need not be there.
  std::uint32_t named(ItemId item) const {
    return numbers_ && item.value < numbers_->room() ? numbers_->item(item).value : item.value;
  }
  std::string counts() const {
    return fmt::format("{} residents in {} slots, {} hits and {} misses so far", residents_,
                       capacity_, hits_, misses_);
  }

  std::string where_;
  std::shared_ptr<const ItemNumbers> numbers_;
  Slots capacity_ = 0;
  std::uint64_t residents_ = 0;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

}  // namespace

std::string text_of(const Decision& decision) {
  return fmt::format("{} {}: {} ({})", decision.kind, decision.policy, decision.what,
                     decision.numbers);
}

std::unique_ptr<AllocationPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                            std::unique_ptr<AllocationPolicy> policy) {
  if (!explain) return policy;
  return std::make_unique<ExplainedAllocation>(Teller(explain, choice), std::move(policy));
}

std::unique_ptr<SelectionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                           std::unique_ptr<SelectionPolicy> policy) {
  if (!explain) return policy;
  return std::make_unique<ExplainedSelection>(Teller(explain, choice), std::move(policy));
}

std::unique_ptr<DispatchPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<DispatchPolicy> policy) {
  if (!explain) return policy;
  return std::make_unique<ExplainedDispatch>(Teller(explain, choice), std::move(policy));
}

std::unique_ptr<ScalingPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                         std::unique_ptr<ScalingPolicy> policy) {
  if (!explain) return policy;
  return std::make_unique<ExplainedScaling>(Teller(explain, choice), std::move(policy));
}

std::unique_ptr<EvictionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<EvictionPolicy> policy,
                                          const ShareSpec& spec,
                                          std::shared_ptr<const ItemNumbers> numbers) {
  if (!explain) return policy;
  return std::make_unique<ExplainedEviction>(
      Teller(explain, choice), std::move(policy),
      fmt::format("{}, {} of dataset {}", name_of(spec.place), name_of(form_of(spec.use)),
                  spec.dataset.value),
      std::move(numbers));
}

}  // namespace batchflow::engine
