#include "sim/world/live_sources.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/random.h"
#include "core/engine/growing_sources.h"
#include "core/engine/seed_group.h"
#include "core/order/reservoir.h"
#include "sim/world/buffer_contents.h"
#include "sim/world/chance.h"
#include "sim/world/sim_time.h"

namespace batchflow::world {

namespace {

// What the log takes beside records, as runtime/feeds/feed_log.h has it: the head of a file, the
// state of the producer, and the frame and head of a record.
constexpr Bytes kFileHead = 32;
constexpr Bytes kState = 65;
constexpr Bytes kBesideRecord = 45;
constexpr Bytes kFiles = 8;  // of a full log

std::uint64_t nanoseconds(Duration time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, time.count()));
}

}  // namespace

LiveSource::LiveSource(const input::DatasetModel& model, const Workload::Data& data,
                       std::uint64_t seed, Kernel& kernel, Reports& reports)
    : model_(model),
      live_(*model.live),
      data_(data),
      seed_(seed),
      kernel_(kernel),
      reports_(reports),
      arrivals_(live_.arrivals, chance_of(seed, Chance::record_made, data.id.value)),
      files_{{0, kFileHead}},
      kept_(kFileHead),
      kept_most_(kFileHead) {
  paced_.taken_part = std::uint64_t{1} << 32;
}

void LiveSource::begin() {
  report();
  make_next();
}

// ---------------------------------------------------------------------------- on their way ----

void LiveSource::make_next() {
  const std::optional<Instant> when =
      made_at_.size() < model_.samples ? arrivals_.next() : std::nullopt;
  const bool is_last = !when || (live_.ends_after.count() > 0 && *when > Instant(live_.ends_after));
  if (is_last) {
    all_made_ = true;
    // Without a record behind it, the end is written by itself.
    if (is_over()) kernel_.after(Duration(0), [this] { sync(); });
    return;
  }
  kernel_.at(*when, [this] {
    const auto key = static_cast<std::uint32_t>(made_at_.size());
    made_at_.push_back(kernel_.now());
    fates_.push_back(Fate::waits);
    ++counts_[static_cast<std::size_t>(Fate::waits)];
    waiting_.push_back(key);
    send_waiting();
    waiting_most_ = std::max<std::uint64_t>(waiting_most_, waiting_.size());
    make_next();
  });
}

// As a feed reads nothing of producers that can wait while its log is full.
void LiveSource::send_waiting() {
  while (!waiting_.empty() && !(live_.can_wait && (paced_.waits || kept_ >= live_.keep))) {
    const std::uint32_t key = waiting_.front();
    waiting_.pop_front();
    send(key);
  }
}

void LiveSource::set_fate(std::uint32_t key, Fate fate) {
  --counts_[static_cast<std::size_t>(fates_[key])];
  ++counts_[static_cast<std::size_t>(fate)];
  fates_[key] = fate;
}

void LiveSource::send(std::uint32_t key) {
  if (chance_of(seed_, Chance::record_lost, data_.id.value, key).unit() < live_.lost) {
    set_fate(key, Fate::lost);
    if (is_over()) sync();
    return;
  }
  set_fate(key, Fate::on_way);
  Random chance = chance_of(seed_, Chance::record_lag, data_.id.value, key);
  const Duration lag = scaled(live_.lag, live_.lag_spread.draw(chance));
  if (lag.count() == 0) return arrive(key);
  kernel_.after(lag, [this, key] { arrive(key); });
}

// Which records are thinned follows from their keys, as in a feed with a producer that numbers from
// 1.
void LiveSource::arrive(std::uint32_t key) {
  const Instant made = made_at_[key];
  const bool is_late = live_.late_after.count() > 0 && newest_ - made > live_.late_after;
  const bool has_room =
      live_.can_wait || (hash(key, std::uint64_t{key} + 1) & UINT32_MAX) < paced_.taken_part;
  if (!is_late && has_room) newest_ = std::max(newest_, made);
  write(key, is_late ? Fate::late : has_room ? Fate::taken : Fate::thinned);
}

// ------------------------------------------------------------------------------------ log ----

void LiveSource::write(std::uint32_t key, Fate fate) {
  set_fate(key, fate);
  const SampleId record(keys_.size());
  const Bytes bytes = fate == Fate::taken ? kBesideRecord + data_.catalogue->bytes(record) : kState;
  const bool has_records = files_.back().first < keys_.size();
  if (has_records && files_.back().bytes + bytes > live_.keep / kFiles) {
    files_.push_back({keys_.size(), kFileHead + kState});
    kept_ += kFileHead + kState;
  }
  if (fate == Fate::taken) keys_.push_back(key);
  files_.back().bytes += bytes;
  kept_ += bytes;
  kept_most_ = std::max(kept_most_, kept_);
  is_dirty_ = true;
  sync();
}

bool LiveSource::is_over() const {
  return all_made_ && count(Fate::waits) == 0 && count(Fate::on_way) == 0;
}

// Makes durable what was written before; what comes meanwhile goes with the next.
void LiveSource::sync() {
  const bool ends = is_over() && !ended_;
  if (syncing_ || (!is_dirty_ && !ends)) return;
  syncing_ = true;
  is_dirty_ = false;
  const auto over = [this, written = keys_.size(), ends] {
    syncing_ = false;
    durable_ = written;
    ended_ = ended_ || ends;
    report();
    sync();
  };
  if (live_.sync.count() == 0) return over();
  kernel_.after(live_.sync, over);
}

void LiveSource::report() {
  reports_.fact(
      engine::SourceGrew{data_.id, files_.front().first, durable_, kept_, live_.keep, ended_});
}

void LiveSource::go_on(const engine::SourcePaced& command) {
  paced_ = command;
  const std::size_t before = files_.size();
  while (files_.size() > 1 && files_[1].first <= command.needed_from) {
    kept_ -= files_.front().bytes;
    files_.pop_front();
  }
  if (files_.size() != before) report();
  send_waiting();
}

std::uint64_t LiveSource::window_most() const {
  return engine::window_most(live_.keep, data_.catalogue->largest_bytes());
}

// -------------------------------------------------------------------------------- results ----

std::uint32_t LiveSource::class_of_key(std::uint32_t key) const {
  if (live_.classes == 0) return 0;
  if (live_.class_every > 0)
    return static_cast<std::uint32_t>(key / live_.class_every % live_.classes);
  return static_cast<std::uint32_t>(
      chance_of(seed_, Chance::record_class, data_.id.value, key).below(live_.classes));
}

output::SourceResult LiveSource::result() const {
  output::SourceResult out;
  out.dataset = model_.name;
  out.made = made_at_.size();
  out.lost = count(Fate::lost);
  out.late = count(Fate::late);
  out.thinned = count(Fate::thinned);
  out.taken = count(Fate::taken);
  out.waiting = count(Fate::waits) + count(Fate::on_way);
  out.waiting_most = waiting_most_;
  out.dropped = files_.front().first;
  out.kept_bytes_most = kept_most_;
  return out;
}

LiveSources::LiveSources(const input::Scenario& scenario, const Workload& workload, Kernel& kernel,
                         Reports& reports)
    : workload_(workload), kernel_(kernel) {
  for (std::size_t i = 0; i < scenario.datasets.size(); ++i) {
    const Workload::Data& data = workload.datasets()[i];
    if (scenario.datasets[i].live)
      sources_.try_emplace(data.id.value, scenario.datasets[i], data, scenario.seed, kernel,
                           reports);
  }
}

void LiveSources::begin() {
  for (auto& [dataset, source] : sources_) source.begin();
}

LiveSource* LiveSources::source(DatasetId dataset) {
  const auto found = sources_.find(dataset.value);
  BF_CHECK(found != sources_.end());
  return &found->second;
}

const LiveSource* LiveSources::find(DatasetId dataset) const {
  const auto found = sources_.find(dataset.value);
  return found == sources_.end() ? nullptr : &found->second;
}

void LiveSources::trained_on(DatasetId dataset, std::span<const SampleId> records,
                             std::span<const SampleId> fills, LiveRecords& of_job) const {
  const LiveSource& source = *find(dataset);
  if (!records.empty())
    of_job.first = std::min(of_job.first.value_or(UINT64_MAX), records.front().value);
  const auto age = [&](SampleId record) {
    return nanoseconds(kernel_.now() - source.made_at(record));
  };
  for (const SampleId record : records) of_job.lags.add(age(record));
  for (const SampleId fill : fills) of_job.fill_ages.add(age(fill));
}

std::uint64_t LiveSources::fills_from(const input::JobModel& job) const {
  return std::min(job.live.fills_from, find(job)->window_most());
}

output::BufferResult LiveSources::window(const input::JobModel& job, const LiveRecords& had,
                                         std::uint64_t records) const {
  const LiveSource* const source = find(job);
  if (source == nullptr || !had.first || (job.live.fills_from == 0 && job.exemplars == 0))
    return {};
  const std::uint64_t end = *had.first + records;
  BufferContents contents(records);
  const auto add = [&](std::uint64_t record) {
    contents.add(source->class_of(SampleId(record)), record - *had.first);
  };
  if (job.exemplars > 0) {
    engine::JobJoined joined;
    joined.order = Order::live;
    order::Reservoir reservoir(workload_.data(workload_.dataset(job)).version,
                               {engine::seed_group_of(joined, 0), *had.first, job.exemplars});
    reservoir.show(end);
    for (const std::uint32_t record : reservoir.records()) add(record);
    return contents.result();
  }
  for (std::uint64_t i = end - std::min(records, fills_from(job)); i < end; ++i) add(i);
  return contents.result();
}

output::LiveResult LiveSources::result(const LiveRecords& had) {
  output::LiveResult out;
  out.lag_mean_s = had.lags.mean() * 1e-9;
  out.lag_p50_s = static_cast<double>(had.lags.quantile(.5)) * 1e-9;
  out.lag_p99_s = static_cast<double>(had.lags.quantile(.99)) * 1e-9;
  out.fill_age_s = had.fill_ages.mean() * 1e-9;
  return out;
}

std::vector<output::SourceResult> LiveSources::results() const {
  std::vector<output::SourceResult> all;
  for (const auto& [dataset, source] : sources_) all.push_back(source.result());
  return all;
}

}  // namespace batchflow::world
