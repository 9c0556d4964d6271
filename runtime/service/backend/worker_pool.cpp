#include "runtime/service/backend/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/order/keys.h"
#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/sources/bundles.h"

namespace batchflow::service {
namespace {

constexpr int kNiceness = 10;
constexpr std::size_t kFoundAtOnce = 64;
// The most memory for a decoded form that is kept for the next sample.
constexpr std::size_t kKeptMost = 256 << 10;

// The rows of a ragged field cannot be written anew in place, because what follows them moves. So
// the sample is made apart, and then inserted.
void insert_sample(const batch::BlockLayout& one, const std::byte* sample,
                   const batch::BlockLayout& block, std::byte* slot, std::uint32_t index) {
  const batch::BlockWriter writer(block, slot);
  for (std::size_t i = 0; i < block.fields.size(); ++i) {
    if (block.fields[i].ragged) {
      std::int64_t rows;
      std::memcpy(&rows, sample + one.fields[i].offsets + sizeof rows, sizeof rows);
      std::memcpy(writer.resize_rows(i, index, static_cast<std::uint64_t>(rows)),
                  sample + one.fields[i].values,
                  static_cast<Bytes>(rows) * one.fields[i].row_bytes);
    } else {
      std::memcpy(writer.row(i, index), sample + one.fields[i].values, one.fields[i].row_bytes);
    }
  }
}

// What is kept of a stored sample, alone or in a bundle. A bundle of a file that was cut may end
// before the sample does.
std::span<const std::byte> stored_bytes(const PreparationTask& task, SampleId sample, Bytes bytes,
                                        const ItemStore::Item& item) {
  const std::span<const std::byte> all = ItemStore::bytes_of(item);
  if (task.bundle_shift == 0) return all;
  const Bytes offset = std::min<Bytes>(
      all.size(), sources::offset_in_bundle(*task.index, task.bundle_shift, sample));
  return all.subspan(offset, std::min<Bytes>(bytes, all.size() - offset));
}

}  // namespace

PreparationTask::Sample PreparationTask::sample_of(const engine::Ingredient& ingredient,
                                                   SampleId wanted) const {
  const order::KeyRoot root{lineage.dataset_version, lineage.seed};
  const SampleId used = ingredient.sample;
  Sample sample;
  sample.index = ingredient.place;
  sample.wanted = wanted;
  sample.keep_decoded = ingredient.keep_decoded;
  sample.is_kept = ingredient.staging.is_none();
  sample.input.sample = used;
  sample.input.decoded = ingredient.form == Form::decoded;
  sample.input.label = index->label(used).value_or(-1);
  sample.input.draw_key =
      lineage.order == Order::weighted
          ? order::occurrence_draw_key(root, lineage.name.generation, wanted, ingredient.occurrence)
          : order::draw_key(root, lineage.name.generation, lineage.name.pass, wanted);
  if (ingredient.form != Form::decoded) sample.bytes = index->extent(used).bytes;
  return sample;
}

void PreparationTask::add_in_bundles() {
  if (in_bundles.empty()) return;
  std::vector<Sample> all;
  all.reserve(in_bundles.size());
  auto named = samples.begin();
  for (std::uint32_t i = 0; i < in_bundles.size(); ++i) {
    engine::Ingredient one;
    one.place = in_bundles_from + i;
    one.sample = in_bundles[i];
    const bool is_named = named != samples.end() && named->index == one.place;
    all.push_back(is_named ? std::move(*named++) : sample_of(one, one.sample));
  }
  samples = std::move(all);
  in_bundles.clear();
}

WorkerPool::WorkerPool(ItemStore& items, const memory::ScratchLimits& scratch, Report report,
                       Quiet quiet)
    : items_(items),
      scratch_(std::make_shared<memory::ScratchBudget>(scratch)),
      report_(std::move(report)),
      quiet_(std::move(quiet)) {}

WorkerPool::~WorkerPool() {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->ending = true;
    worker->gives_up = true;
    worker->tasks.clear();
    worker->changed.notify_one();
  }
  for (const auto& worker : workers_) worker->thread.join();
}

bool WorkerPool::start(WorkerId id) {
  auto made = std::make_unique<Worker>();
  made->id = id;
  try {
    if (BF_FAILPOINT("service.worker.thread"))
      throw std::system_error(EAGAIN, std::generic_category());
    made->thread = std::thread([this, worker = made.get()] { run(*worker); });
  } catch (const std::system_error&) {
    return false;
  }
  workers_.push_back(std::move(made));
  return true;
}

void WorkerPool::retire(WorkerId id) {
  for (const auto& worker : workers_) {
    if (worker->id != id) continue;
    const std::lock_guard lock(worker->mutex);
    worker->ending = true;
    worker->changed.notify_one();
  }
}

void WorkerPool::prepare(PreparationTask task) {
  const auto found = std::find_if(workers_.begin(), workers_.end(),
                                  [&](const auto& one) { return one->id == task.worker; });
  BF_CHECK(found != workers_.end());
  const std::lock_guard lock((*found)->mutex);
  (*found)->tasks.push_back(std::move(task));
  (*found)->changed.notify_one();
}

void WorkerPool::cancel(engine::Request request) {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    if (worker->current == request) worker->gives_up = true;
    for (PreparationTask& task : worker->tasks) {
      if (task.request == request) task.is_given_up = true;
    }
  }
}

void WorkerPool::end_steps() {
  for (const auto& worker : workers_) {
    const std::lock_guard lock(worker->mutex);
    worker->ends_steps = true;
    worker->changed.notify_one();
  }
}

void WorkerPool::run(Worker& worker) {
  pthread_setname_np(pthread_self(), "bf-prepare");
  setpriority(PRIO_PROCESS, 0, kNiceness);  // of this thread alone, on Linux
  std::unique_ptr<prepare::Preparer> preparer = prepare::make_preparer(scratch_);
  for (;;) {
    PreparationTask task;
    {
      std::unique_lock lock(worker.mutex);
      worker.changed.wait(
          lock, [&] { return worker.ending || worker.ends_steps || !worker.tasks.empty(); });
      if (std::exchange(worker.ends_steps, false)) {
        lock.unlock();
        preparer->end_steps();
        continue;
      }
      if (worker.tasks.empty()) break;
      task = std::move(worker.tasks.front());
      worker.tasks.pop_front();
      worker.current = task.request;
      worker.gives_up = task.is_given_up;
    }
    const auto began = std::chrono::steady_clock::now();
    PreparationReport report = attempt(task, preparer, worker.gives_up);
    report.took = std::chrono::steady_clock::now() - began;
    busy_ns_.fetch_add(report.took.count(), std::memory_order_relaxed);
    task = {};  // what it holds of the cache may go
    report_(std::move(report));
  }
  quiet_(worker.id);
}

PreparationReport WorkerPool::attempt(PreparationTask& task,
                                      std::unique_ptr<prepare::Preparer>& preparer,
                                      const std::atomic<bool>& gives_up) {
  PreparationReport report;
  const auto fails = [&] {
    report = {};
    report.request = task.request;
    report.worker = task.worker;
    report.outcome = engine::Outcome::failed;
    preparer.reset();  // first, as it may hold what others wait for
    preparer = prepare::make_preparer(scratch_);
  };
  try {
    const memory::MayRunOutOfMemory scope;
    if (BF_FAILPOINT("service.prepare.new")) throw std::bad_alloc();
    return carry_out(task, *preparer, gives_up);
  } catch (const std::bad_alloc&) {
    fails();
    report.unbegun = std::move(task);
  } catch (const std::exception& error) {
    fails();
    report.problems = {error.what()};
  }
  return report;
}

// Finds what is kept of samples [first, first + found.size()).
void WorkerPool::find_kept(const PreparationTask& task, std::size_t first,
                           std::vector<ItemStore::Item>& found) const {
  std::fill(found.begin(), found.end(), nullptr);
  const std::size_t last = std::min(task.samples.size(), first + found.size());
  for (const bool decoded : {false, true}) {
    for (const ShareId share : decoded ? task.decoded_in : task.stored_in) {
      std::array<ItemId, kFoundAtOnce> wanted;
      std::array<ItemStore::Item, kFoundAtOnce> there;
      std::array<std::size_t, kFoundAtOnce> places;
      std::size_t count = 0;
      for (std::size_t i = first; i < last; ++i) {
        const PreparationTask::Sample& sample = task.samples[i];
        if (!sample.is_kept || sample.input.decoded != decoded || found[i - first]) continue;
        wanted[count] = engine::item_of(sample.input.sample, decoded ? 0 : task.bundle_shift);
        places[count++] = i - first;
      }
      items_.find(share, std::span(wanted).first(count), std::span(there).first(count));
      for (std::size_t i = 0; i < count; ++i) found[places[i]] = std::move(there[i]);
    }
  }
}

PreparationReport WorkerPool::carry_out(PreparationTask& task, prepare::Preparer& preparer,
                                        const std::atomic<bool>& gives_up) {
  PreparationReport report;
  report.request = task.request;
  report.worker = task.worker;
  const auto fails = [&report] {
    report.outcome = engine::Outcome::failed;
    report.corrupt.clear();
    report.decoded.clear();
    report.problems.clear();
    return std::move(report);
  };
  if (gives_up) return fails();
  if (!task.slot.fill() || BF_FAILPOINT("service.prepare.memory")) {
    report.outcome = engine::Outcome::failed;
    report.unbegun = std::move(task);
    return report;
  }
  task.add_in_bundles();
  const batch::BlockLayout& layout = *task.layout;
  const batch::BlockWriter block(layout, task.slot.memory());
  const bool ragged = std::any_of(layout.fields.begin(), layout.fields.end(),
                                  [](const auto& field) { return field.ragged; });
  const bool apart = ragged && !task.anew;
  batch::BlockLayout one;
  if (apart) one = batch::BlockLayout(task.pipeline->spec(), 1);
  memory::ScratchMemory scratch;
  std::vector<std::byte> decoded;
  std::vector<ItemStore::Item> kept(kFoundAtOnce);
  for (std::size_t at = 0; at < task.samples.size(); ++at) {
    // On this thread, because this memory was not touched for long.
    if (at % kFoundAtOnce == 0) find_kept(task, at, kept);
    const PreparationTask::Sample& sample = task.samples[at];
    const batch::BlockWriter writer =
        apart ? batch::BlockWriter(one, scratch.have(one.bytes)) : block;
    prepare::Preparer::Input input = sample.input;
    input.beside = one.bytes;
    input.is_given_up = &gives_up;
    const ItemStore::Item held = std::exchange(kept[at % kFoundAtOnce], nullptr);
    if (held)
      input.bytes = input.decoded ? ItemStore::bytes_of(held)
                                  : stored_bytes(task, input.sample, sample.bytes, held);
    const bool whole = input.decoded || input.bytes.size() == sample.bytes;
    const prepare::Prepared made =
        !whole ? prepare::Prepared::corrupt
               : preparer.prepare(*task.pipeline, input, writer, apart ? 0 : sample.index,
                                  sample.keep_decoded ? &decoded : nullptr);
    if (gives_up) return fails();
    const bool replaced = sample.wanted != sample.input.sample;
    block.set_key(sample.index, sample.input.sample, sample.wanted,
                  replaced ? batch::kReplaced : 0);
    ++report.samples;
    if (made == prepare::Prepared::done) {
      if (apart) insert_sample(one, scratch.data(), layout, task.slot.memory(), sample.index);
      if (sample.keep_decoded)
        report.decoded.push_back({sample.input.sample, decoded.size(), items_.copy(decoded)});
      scratch.drop();
      if (decoded.capacity() > kKeptMost) memory::drop(decoded);
      preparer.end_sample();
      continue;
    }
    // Another sample takes its place later; until then it has no rows.
    if (ragged && task.anew) {
      for (std::size_t i = 0; i < layout.fields.size(); ++i) {
        if (!layout.fields[i].ragged) continue;
        block.begin_rows(i, sample.index);
        block.end_rows(i, sample.index, 0);
      }
    }
    if (made == prepare::Prepared::failed) {
      std::string problem =
          fmt::format("sample {}: {}", sample.input.sample.value, preparer.problem());
      report = fails();
      report.problems = {std::move(problem)};
      return report;
    }
    report.outcome = engine::Outcome::corrupt;
    report.corrupt.push_back(sample.input.sample);
    report.problems.emplace_back(
        whole
            ? std::string(preparer.problem())
            : fmt::format("{} than the {} bytes there were: the data set has changed since it was "
                          "indexed, or is damaged",
                          input.bytes.size() > sample.bytes ? "more" : "less", sample.bytes));
  }
  if (ragged && task.anew) {
    // The last block of an epoch is short: the samples that it lacks have no rows. The same holds
    // for samples that later parts of a block bring.
    const std::uint32_t end = task.samples.empty() ? 0 : task.samples.back().index + 1;
    for (std::uint32_t index = end; index < layout.samples; ++index) {
      for (std::size_t i = 0; i < layout.fields.size(); ++i) {
        if (!layout.fields[i].ragged) continue;
        block.begin_rows(i, index);
        block.end_rows(i, index, 0);
      }
    }
  }
  return report;
}

}  // namespace batchflow::service
