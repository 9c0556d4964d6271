#include "runtime/service/backend/backend.h"

#include <utility>

namespace batchflow::service {

Backend::Backend(const Options& options, MemoryBudget& budget, Datasets& datasets, Inbox& inbox,
                 Customer& customer, StallBook& stalls, Post post)
    : options_(options),
      datasets_(datasets),
      inbox_(inbox),
      customer_(customer),
      stalls_(stalls),
      post_(std::move(post)),
      troubles_(options.say),
      budget_(budget),
      slots_(budget_, [this](std::uint64_t slab) { customer_.slab_gone(slab); }),
      items_(budget_) {
  if (!options.spill.path.empty()) spill_ = std::make_unique<Spill>(options.spill, budget_);
  reader_ = storage::make_read_engine(
      options.storage, [this](std::span<const storage::ReadResult> results) {
        post_([this, copy = std::vector<storage::ReadResult>(results.begin(), results.end())] {
          read_done(copy);
        });
      });
  copier_ = std::make_unique<Copier>([this](engine::Request request, engine::Outcome outcome) {
    post_([this, request, outcome] { copied(request, outcome); });
  });
  workers_ = std::make_unique<WorkerPool>(
      items_, options.scratch,
      [this](PreparationReport report) {
        {
          const std::lock_guard lock(made_mutex_);
          made_.push_back(std::move(report));
        }
        post_([this] { take_made(); });
      },
      [this](WorkerId worker) {
        post_([this, worker] { inbox_.add(engine::WorkerQuiesced{worker}); });
      });
}

Backend::~Backend() {
  workers_.reset();  // they end what they are making, from what the reader has staged
  copier_.reset();
  reader_.reset();
}

void Backend::take_made() {
  std::unique_lock lock(made_mutex_);
  PreparationReport report = std::move(made_.front());
  made_.pop_front();
  lock.unlock();
  prepared(report);
}

void Backend::carry_out(std::span<const engine::Command> commands) {
  for (const engine::Command& command : commands) {
    std::visit([this](const auto& order) { on(order); }, command);
  }
  // Workers keep what they decode, and cannot give back slabs.
  slots_.make_room(budget_.most() / 32);
  // A job has unmapped a slab, or something that was kept is gone.
  if (budget_.used() < used_before_) retry_waiting();
  used_before_ = budget_.used();
}

void Backend::set_memory(Bytes bytes) {
  budget_.set_most(bytes);
  slots_.make_room(0);
}

void Backend::on(const engine::Drop& order) {
  if (order.form == Form::prepared) {
    slots_.free(order.share, order.slot);
    if (!unplaced_.empty() || !ungathered_.empty()) retry_waiting();
  } else if (order.place.tier == Tier::nvme) {
    spill_->drop(order.share, order.item);
  } else {
    items_.drop(order.share, order.item);
  }
}

void Backend::on(const engine::Cancel& order) {
  const std::uint64_t id = order.request.id.value;
  if (const auto read = reading_of_.find(id); read != reading_of_.end()) {
    const std::uint32_t index = read->second;
    if (readings_[index].request != order.request) return;
    reading_of_.erase(read);
    if (readings_[index].left > 0) {
      readings_[index].cancelled = true;
    } else {
      free_staging(index);
    }
    return;
  }
  if (const auto copy = copying_.find(id); copy != copying_.end()) {
    if (copy->second.order.request != order.request) return;
    copier_->cancel(order.request);
    stalls_.gathering(copy->second.pipeline, -1);
    copying_.erase(copy);
    if (const auto to = copy_to_.find(id); to != copy_to_.end()) {
      std::erase_if(gathering_[to->second].waiting,
                    [&](const CopyOrder& one) { return one.request == order.request; });
      copy_to_.erase(to);
    }
    return;
  }
  // The engine waits for what becomes of a preparation: until then its worker may write to the
  // slot.
  std::erase_if(unplaced_, [&](const Unplaced& one) {
    if (one.entry.request != order.request) return false;
    inbox_.add(engine::PreparationDone{order.request, engine::Outcome::failed, {}});
    return true;
  });
  std::erase_if(ungathered_,
                [&](const Ungathered& one) { return one.entry.order.request == order.request; });
  const auto found = preparing_.find(id);
  if (found == preparing_.end() || found->second.request != order.request) return;
  found->second.is_given_up = true;
  workers_->cancel(order.request);
}

void Backend::on(const engine::SetTimer& order) {
  timers_.emplace(order.at, order.timer);
}

void Backend::fire_timers(Instant now) {
  while (!timers_.empty() && timers_.begin()->first <= now) {
    inbox_.add(engine::TimerFired{timers_.begin()->second});
    timers_.erase(timers_.begin());
  }
}

}  // namespace batchflow::service
