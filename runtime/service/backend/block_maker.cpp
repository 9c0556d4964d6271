#include "runtime/service/backend/block_maker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/order/keys.h"
#include "fmt/format.h"
#include "runtime/sources/bundles.h"

namespace batchflow::service {
namespace {

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
  sample.index = ingredient.index;
  sample.wanted = wanted;
  sample.keep_decoded = ingredient.keep_decoded;
  sample.is_kept = ingredient.staging.is_none();
  sample.input.sample = used;
  sample.input.decoded = ingredient.form == Form::decoded;
  sample.input.label = index->label(used).value_or(-1);
  sample.input.draw_key =
      is_drawn(lineage.order)
          ? order::occurrence_draw_key(
                root, lineage.order == Order::weighted ? lineage.name.generation : 0, wanted,
                ingredient.occurrence)
          : order::draw_key(root, lineage.name.generation, lineage.name.pass, wanted);
  if (ingredient.form != Form::decoded) sample.bytes = index->extent(used).bytes;
  return sample;
}

void PreparationTask::add_kept_samples() {
  if (kept_samples.empty()) return;
  std::vector<Sample> all;
  all.reserve(kept_samples.size());
  auto named = samples.begin();
  for (std::uint32_t i = 0; i < kept_samples.size(); ++i) {
    engine::Ingredient one;
    one.index = kept_from + i;
    one.sample = kept_samples[i];
    const bool is_named = named != samples.end() && named->index == one.index;
    all.push_back(is_named ? std::move(*named++) : sample_of(one, one.sample));
  }
  samples = std::move(all);
  kept_samples.clear();
}

BlockMaker::BlockMaker(ItemStore& items, const PreparationTask& task,
                       const std::unique_ptr<prepare::Preparer>& preparer,
                       const std::atomic<bool>& gives_up)
    : items_(items),
      task_(task),
      preparer_(preparer),
      gives_up_(gives_up),
      ragged_(has_ragged_field(task)),
      apart_(ragged_ && !task.anew),
      block_(*task.layout, task.slot.memory()),
      keep_([this](Bytes bytes) {
        decoded_.bytes = bytes;
        decoded_.item = items_.make(bytes);
        return decoded_.item ? ItemStore::memory_of(decoded_.item) : nullptr;
      }),
      kept_(kAtOnce) {
  if (apart_) one_ = batch::BlockLayout(task.pipeline->spec(), 1);
}

bool BlockMaker::has_ragged_field(const PreparationTask& task) {
  return std::any_of(task.layout->fields.begin(), task.layout->fields.end(),
                     [](const auto& field) { return field.ragged; });
}

// Finds what is kept of these samples.
void BlockMaker::find_kept(std::size_t first, std::size_t last) {
  std::fill(kept_.begin(), kept_.end(), nullptr);
  for (const bool decoded : {false, true}) {
    for (const ShareId share : decoded ? task_.decoded_in : task_.stored_in) {
      std::array<ItemId, kAtOnce> wanted;
      std::array<ItemStore::Item, kAtOnce> there;
      std::array<std::size_t, kAtOnce> indices;
      std::size_t count = 0;
      for (std::size_t i = first; i < last; ++i) {
        const PreparationTask::Sample& sample = task_.samples[i];
        if (!sample.is_kept || sample.input.decoded != decoded || kept_[i - first]) continue;
        wanted[count] = engine::item_of(sample.input.sample, decoded ? 0 : task_.bundle_shift);
        indices[count++] = i - first;
      }
      items_.find(share, std::span(wanted).first(count), std::span(there).first(count));
      for (std::size_t i = 0; i < count; ++i) kept_[indices[i]] = std::move(there[i]);
      if (decoded || task_.bundle_shift == 0) continue;  // the store has fetched their beginnings
      for (std::size_t i = 0; i < count; ++i) {
        if (const ItemStore::Item& held = kept_[indices[i]]) {
          const PreparationTask::Sample& sample = task_.samples[first + indices[i]];
          __builtin_prefetch(stored_bytes(task_, sample.input.sample, sample.bytes, held).data());
        }
      }
    }
  }
}

prepare::Preparer::Input BlockMaker::input_of(const PreparationTask::Sample& sample,
                                              const ItemStore::Item& held) const {
  prepare::Preparer::Input input = sample.input;
  input.beside = one_.bytes;
  input.is_given_up = &gives_up_;
  if (held)
    input.bytes = input.decoded ? ItemStore::bytes_of(held)
                                : stored_bytes(task_, input.sample, sample.bytes, held);
  return input;
}

// What was to be kept may have found no memory. The engine, which cannot know, reads it anew.
bool BlockMaker::is_whole(const PreparationTask::Sample& sample,
                          const prepare::Preparer::Input& input, bool is_held) {
  return (is_held || !sample.is_kept) && (input.decoded || input.bytes.size() == sample.bytes);
}

// Steps in processes of their own may take several samples at once.
void BlockMaker::expect(std::size_t first, std::size_t last) {
  if (task_.pipeline->plugins().empty()) return;
  std::vector<prepare::Preparer::Input> next;
  for (std::size_t at = first; at < last; ++at) {
    const PreparationTask::Sample& sample = task_.samples[at];
    prepare::Preparer::Input input = input_of(sample, kept_[at - first]);
    if (is_whole(sample, input, kept_[at - first] != nullptr)) next.push_back(std::move(input));
  }
  preparer_->expect(*task_.pipeline, std::move(next));
}

bool BlockMaker::make(std::size_t first, std::size_t last, PreparationReport& report) {
  find_kept(first, last);  // here, because this memory was not touched for long
  expect(first, last);
  for (std::size_t at = first; at < last; ++at) {
    const PreparationTask::Sample& sample = task_.samples[at];
    const batch::BlockWriter writer =
        apart_ ? batch::BlockWriter(one_, scratch_.have(one_.bytes)) : block_;
    const ItemStore::Item held = std::exchange(kept_[at - first], nullptr);
    const prepare::Preparer::Input input = input_of(sample, held);
    decoded_ = {sample.input.sample, 0, nullptr};
    const bool is_there = held || !sample.is_kept;
    const bool whole = is_whole(sample, input, held != nullptr);
    const prepare::Prepared made =
        !whole ? prepare::Prepared::corrupt
               : preparer_->prepare(*task_.pipeline, input, writer, apart_ ? 0 : sample.index,
                                    sample.keep_decoded ? &keep_ : nullptr);
    if (gives_up_) return false;
    const bool replaced = sample.wanted != sample.input.sample;
    block_.set_key(sample.index, sample.input.sample, sample.wanted,
                   replaced ? batch::kReplaced : 0);
    ++report.samples;
    if (made == prepare::Prepared::done) {
      if (apart_)
        insert_sample(one_, scratch_.data(), *task_.layout, task_.slot.memory(), sample.index);
      if (sample.keep_decoded) report.decoded.push_back(std::move(decoded_));
      scratch_.drop();
      preparer_->end_sample();
      continue;
    }
    // As a rule another sample takes its place later; until then it has no rows.
    block_.set_key(sample.index, sample.input.sample, sample.wanted, batch::kCorrupt);
    if (ragged_ && task_.anew) make_no_rows(sample.index);
    if (made == prepare::Prepared::failed) {
      report.problems = {
          fmt::format("sample {}: {}", sample.input.sample.value, preparer_->problem())};
      return false;
    }
    report.outcome = engine::Outcome::corrupt;
    report.corrupt.push_back(sample.input.sample);
    report.problems.emplace_back(
        !is_there ? std::string()
        : whole
            ? std::string(preparer_->problem())
            : fmt::format("{} than the {} bytes there were: the dataset has changed since it was "
                          "indexed, or is damaged",
                          input.bytes.size() > sample.bytes ? "more" : "less", sample.bytes));
  }
  return true;
}

// The last block of an epoch is short: the samples that it lacks have no rows. The same holds for
// samples that later parts of a block bring.
void BlockMaker::end() {
  if (!ragged_ || !task_.anew) return;
  const std::uint32_t from = task_.samples.empty() ? 0 : task_.samples.back().index + 1;
  for (std::uint32_t index = from; index < task_.layout->samples; ++index) make_no_rows(index);
}

void BlockMaker::make_no_rows(std::uint32_t index) {
  for (std::size_t i = 0; i < task_.layout->fields.size(); ++i) {
    if (!task_.layout->fields[i].ragged) continue;
    block_.begin_rows(i, index);
    block_.end_rows(i, index, 0);
  }
}

}  // namespace batchflow::service
