#include "runtime/service/datasets/dataset_openings.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/feeds/feed_index.h"
#include "runtime/memory/out_of_memory.h"
#include "runtime/service/datasets/reading_rights.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {
namespace {

// The most samples of all folders that one user's jobs have ever brought: the engine knows them to
// its end. For the service's own user, memory is the bound that comes first.
constexpr std::uint64_t kBroughtSamplesMost = std::uint64_t{1} << 28;
constexpr std::uint64_t kOwnSamplesMost = std::uint64_t{1} << 30;
// The part of the service's memory that an index in the making may take: for other users, and for
// the service's own user.
constexpr Bytes kIndexPart = 8, kOwnIndexPart = 2;
constexpr Bytes kIndexLeast = Bytes{32} << 20;
// What the service's tables take of a sample, beside its index and catalogue.
constexpr Bytes kTableBytes = 1;
// Less than this is part of what the service itself takes.
constexpr Bytes kApartLeast = Bytes{64} << 10;

std::uint64_t samples_most(const Requester& requester) {
  return requester.is_trusted ? kOwnSamplesMost : kBroughtSamplesMost;
}

Bytes catalogue_bytes(const engine::Catalogue& catalogue) {
  const Bytes of_size = catalogue.is_uniform() ? 0 : sizeof(std::uint32_t);
  const Bytes of_label = catalogue.label(SampleId(0)) ? sizeof(std::uint32_t) : 0;
  const Bytes of_bundles = catalogue.listed_bundles().size() * sizeof(Bytes);
  const Bytes bytes = catalogue.samples() * (of_size + of_label) + of_bundles;
  return bytes < kApartLeast ? 0 : bytes;
}

// A feed has room for more samples than it may ever have, so their number and bytes say nothing.
std::string contents_of(const sources::SampleIndex& index, const engine::Catalogue& catalogue) {
  if (const auto* const feed = dynamic_cast<const feeds::FeedIndex*>(&index))
    return fmt::format("a feed of {}, which has no end", feed->settings().schema);
  return fmt::format("{} samples, {:.1f} MiB, {} classes", index.samples(),
                     static_cast<double>(catalogue.total_bytes()) / 1048576,
                     index.classes().size());
}

// The result for a dataset and its splits when none of them could be opened.
std::vector<OpenedIndex> failures_of(const NodeDataset& dataset, const std::string& problem) {
  std::vector<OpenedIndex> none;
  for (const std::string& name : served_names(dataset)) {
    none.emplace_back();
    none.back().name = name;
    none.back().problem = problem;
  }
  return none;
}

std::vector<OpenedIndex> open_all(const NodeDataset& dataset, const Requester& requester,
                                  const std::filesystem::path& folder,
                                  const sources::StopAsked& stop) {
  try {
    const memory::MayRunOutOfMemory scope;
    if (BF_FAILPOINT("service.dataset.new")) throw std::bad_alloc();
    return open_with_splits(dataset, requester, folder, stop);
  } catch (const std::bad_alloc&) {
    return failures_of(dataset, "the machine has no memory to open it; ask again");
  }
}

// The memory of a dataset that a job has named, as long as it is open.
Bytes table_bytes(const NodeDataset& dataset, const sources::SampleIndex& index) {
  if (!dataset.is_brought()) return 0;
  const Bytes bytes = index.memory_bytes() + index.samples() * kTableBytes;
  return bytes < kApartLeast ? 0 : bytes;
}

}  // namespace

// ----------------------------------------------------------------------------------- threads ----

void DatasetOpenings::begin_opening(std::uint64_t number, const NodeDataset& dataset,
                                    const Requester& requester, std::function<void(Opened)> then) {
  const auto work = [dataset, requester, folder = config_.state / "indices",
                     then](const sources::StopAsked& stop) -> std::function<void()> {
    const auto began = std::chrono::steady_clock::now();
    Opened made{dataset, open_all(dataset, requester, folder, stop), 0};
    made.took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return [then, made = std::move(made)] { then(made); };
  };
  try {
    openers_.start(number, dataset.is_brought() ? std::optional(requester.user) : std::nullopt,
                   work);
  } catch (const std::runtime_error& error) {
    // Posted, so that the job that asks for it waits by then.
    const Opened none{dataset, failures_of(dataset, error.what()), 0};
    host_.post([then, none] { then(none); });
  }
}

void DatasetOpenings::await(std::uint64_t number, const NodeDataset& dataset,
                            const Requester& requester) {
  for (const std::string& name : served_names(dataset)) {
    opening_[name] = {number, dataset.path, requester, {}};
    failed_.erase(name);
  }
}

void DatasetOpenings::open(const NodeDataset& dataset, Requester requester) {
  const std::uint64_t number = next_++;
  await(number, dataset, requester);
  begin_opening(number, dataset, requester,
                [this, number](const Opened& one) { opened(number, one); });
}

void DatasetOpenings::open_unserved(const std::vector<NodeDataset>& wanted,
                                    std::function<void(std::vector<Opened>)> then) {
  auto opened = std::make_shared<std::vector<Opened>>();
  for (const NodeDataset& one : wanted) {
    begin_opening(next_++, one, {}, [opened, then, all = wanted.size()](Opened made) {
      opened->push_back(std::move(made));
      if (opened->size() == all) then(std::move(*opened));
    });
  }
  if (wanted.empty()) then({});
}

void DatasetOpenings::serve(const std::vector<Opened>& all) {
  for (const Opened& one : all) {
    const std::uint64_t number = next_++;
    await(number, one.dataset, {});
    opened(number, one);
  }
}

// ------------------------------------------------------------------------ what a job brings ----

std::pair<std::string_view, std::string> DatasetOpenings::opening_problem(const NodeDataset& wanted,
                                                                          const Peer& connection) {
  if (openers_.running() >= kOpeningMost)
    return {kNotYet, "many datasets are being opened; ask again soon"};
  if (openers_.running(connection.user()) >= kOpeningOfUser)
    return {kNotYet, fmt::format("{} datasets are being opened for jobs of user {}; ask again soon",
                                 kOpeningOfUser, connection.user())};
  const auto has_too_many = [&] {
    return std::count_if(datasets_.all().begin(), datasets_.all().end(), [&](const auto& one) {
             return one->is_brought() && one->index && one->brought_by == connection.user();
           }) >= static_cast<std::ptrdiff_t>(kBroughtMost);
  };
  if (has_too_many()) let_unused_go(Duration(0));
  if (!has_too_many()) return {};
  return {"quota", fmt::format("jobs of user {} read {} folders that they have named by their "
                               "paths; have some served by a name (--dataset NAME={})",
                               connection.user(), kBroughtMost, wanted.path.string())};
}

void DatasetOpenings::open_brought(const NodeDataset& wanted,
                                   const std::shared_ptr<const sources::DataRoot>& shown,
                                   Peer& connection) {
  Requester requester;
  requester.user = connection.user();
  requester.is_trusted = is_trusted(connection);
  requester.shown = shown;
  requester.memory_most =
      std::max(kIndexLeast, config_.memory / (requester.is_trusted ? kOwnIndexPart : kIndexPart));
  const std::uint64_t had = brought_samples_[requester.user];
  // At least one: 0 would mean any number.
  requester.samples_most =
      std::max<std::uint64_t>(1, samples_most(requester) - std::min(had, samples_most(requester)));
  open(wanted, requester);
}

// ----------------------------------------------------------------------- results of opening ----

void DatasetOpenings::opened(std::uint64_t number, const Opened& all) {
  const bool has_failed = std::none_of(all.parts.begin(), all.parts.end(),
                                       [](const OpenedIndex& one) { return one.index != nullptr; });
  // Leaves out paths that a job has named: any user may name any number of them.
  for (std::size_t part = 0; part < all.parts.size(); ++part) {
    const OpenedIndex& one = all.parts[part];
    const auto waited_for = opening_.find(one.name);
    if (has_failed && !all.dataset.is_brought() && waited_for != opening_.end() &&
        waited_for->second.number == number)
      failed_.insert_or_assign(one.name, all.dataset);
    opened(number, all.dataset, part, one, all.took);
  }
}

void DatasetOpenings::opened(std::uint64_t number, const NodeDataset& asked, std::size_t part,
                             const OpenedIndex& made, double took) {
  NodeDataset dataset = asked;
  dataset.name = made.name;
  std::string problem = made.problem;
  const auto found = opening_.find(dataset.name);
  if (found == opening_.end() || found->second.number != number) return;  // removed meanwhile
  std::vector<Waiting> waiting = std::move(found->second.waiting);
  const Requester requester = found->second.requester;
  opening_.erase(found);
  ServedDataset* served = nullptr;
  try {
    if (made.index) {
      served = served_of(dataset, made, requester, took);
      served->asked = asked;
      served->part = part;
      if (host_.dataset_added) host_.dataset_added(*served);
    }
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!served) {
    // Jobs may have it tried as often as they like; the service itself tries once.
    const bool is_asked_for = dataset.is_brought() || !waiting.empty();
    host_.say({fmt::format("dataset {}: {}", dataset.name, problem), LogLevel::error,
               is_asked_for ? "dataset" : "",
               dataset.is_brought() ? std::optional(requester.user) : std::nullopt});
  }
  Result result{asked, served, std::move(problem), {}, requester.is_trusted};
  if (dataset.is_brought()) result.closed = made.closed;
  for (Waiting& one : waiting) tell_(std::move(one), result);
}

// The dataset that is there already, if it is the same.
ServedDataset* DatasetOpenings::served_of(const NodeDataset& dataset, const OpenedIndex& made,
                                          const Requester& requester, double took) {
  ServedDataset* const before = datasets_.find(std::string_view(dataset.name));
  const bool same = before && before->version == made.index->version() &&
                    before->listing == made.index->listing() &&
                    before->identity == file_identity(made.root->shown());
  if (!same) return &add(dataset, made, requester, took);
  if (!before->index) {
    const Bytes apart = table_bytes(dataset, *made.index);
    set_apart_for_data(apart);
    datasets_.add_again(*before, made.root, made.index);
    before->apart = apart;
  }
  before->closed = made.closed;
  return before;
}

ServedDataset& DatasetOpenings::add(const NodeDataset& dataset, const OpenedIndex& made,
                                    const Requester& requester, double took) {
  const bool is_brought = dataset.is_brought();
  const sources::SampleIndex& index = *made.index;
  std::uint64_t& samples = brought_samples_[requester.user];
  if (is_brought && samples + index.samples() > samples_most(requester))
    throw sources::DatasetError(fmt::format(
        "jobs of user {} have brought folders of {} samples since the service began, and {} are "
        "the most; serve this one by a name (--dataset NAME={}), or start the service anew",
        requester.user, samples, samples_most(requester), dataset.path.string()));
  // The catalogue stays, even when the dataset is let go.
  const Bytes apart = table_bytes(dataset, index);
  const Bytes stays = is_brought ? catalogue_bytes(*made.catalogue) : 0;
  set_apart_for_data(apart + stays);
  bool pin = dataset.pin;
  if (ServedDataset* const before = datasets_.find(std::string_view(dataset.name))) {
    pin = pin || (is_brought && before->pinned);
    remove(*before);
    if (is_brought) keep(*before, engine::Keep::dropped);
  }
  const std::string summary =
      fmt::format("dataset {}: {}, version {:016x}, opened in {:.2f} s", dataset.name,
                  contents_of(index, *made.catalogue), index.version(), took);
  ServedDataset& served =
      datasets_.add(dataset.name, dataset.path, made.root, made.index, std::move(*made.catalogue));
  served.pipeline = dataset.pipeline;
  served.format = dataset.format;
  served.tokens = dataset.tokens;
  served.brought_by = requester.user;
  served.closed = made.closed;
  served.apart = apart;
  served.used = host_.now();
  if (is_brought) samples += index.samples();
  const auto say = [&](const std::string& what, LogLevel level) {
    host_.say(is_brought ? LogLine(what, level, "dataset", requester.user) : LogLine(what, level));
  };
  for (const std::string& note : served.index->notes())
    say(fmt::format("dataset {}: {}", dataset.name, note), LogLevel::warning);
  inbox_.add(engine::CatalogueKnown{served.id, served.version});
  if (pin) keep(served, engine::Keep::always);
  say(summary, LogLevel::info);
  return served;
}

// If memory is short, lets go of what no job uses, and tries again.
void DatasetOpenings::set_apart_for_data(Bytes bytes) {
  if (bytes == 0) return;
  try {
    host_.set_apart_for_data(bytes);
  } catch (const ConfigError&) {
    let_unused_go(Duration(0));
    host_.set_apart_for_data(bytes);
  }
}

void DatasetOpenings::remove(const NodeDataset& dataset) {
  for (const std::string& name : served_names(dataset)) {
    failed_.erase(name);
    if (const auto found = opening_.find(name); found != opening_.end()) {
      for (const Waiting& one : found->second.waiting) {
        if (const std::shared_ptr<Peer> connection = one.connection.lock())
          refuse(*connection, "unknown_dataset",
                 fmt::format("dataset '{}' is served no more", name));
      }
      openers_.stop(found->second.number);
      opening_.erase(found);
    } else if (ServedDataset* const served = datasets_.find(std::string_view(name))) {
      remove(*served);
    }
  }
}

void DatasetOpenings::remove(ServedDataset& dataset) {
  datasets_.remove(dataset);
  if (dataset.pinned) keep(dataset, engine::Keep::as_needed);
}

// ------------------------------------------------------------------------- jobs that wait ----

void DatasetOpenings::wait(Peer& connection, const std::string& name, protocol::JoinRequest request,
                           std::vector<protocol::Descriptor> descriptors) {
  for (const auto& [other, opening] : opening_) {
    for (const Waiting& one : opening.waiting) {
      if (one.connection.lock().get() == &connection)
        return refuse(connection, "bad_request", "this connection waits for a dataset already");
    }
  }
  opening_.at(name).waiting.push_back(
      {connection.weak_from_this(), std::move(request), std::move(descriptors)});
}

void DatasetOpenings::gone(const Peer& connection) {
  for (auto at = opening_.begin(); at != opening_.end();) {
    const auto one = at++;
    Opening& opening = one->second;
    const auto left = std::erase_if(opening.waiting, [&](const Waiting& waiting) {
      return waiting.connection.lock().get() == &connection;
    });
    // If no job waits for it any more, it is not opened to its end.
    if (left == 0 || !opening.waiting.empty() || !is_brought_name(one->first)) continue;
    openers_.stop(opening.number);
    opening_.erase(one);
  }
}

std::vector<std::string> DatasetOpenings::names() const {
  std::vector<std::string> names;
  for (const auto& [name, opening] : opening_) names.push_back(name);
  return names;
}

bool DatasetOpenings::try_again(const std::string& name) {
  const auto failed = failed_.extract(name);
  if (failed) open(failed.mapped());
  return bool(failed);
}

std::optional<std::string> DatasetOpenings::configured_at(const std::filesystem::path& path) const {
  const auto found = std::find_if(opening_.begin(), opening_.end(), [&](const auto& one) {
    return one.second.path == path && !is_brought_name(one.first);
  });
  return found == opening_.end() ? std::nullopt : std::optional(found->first);
}

// ------------------------------------------------------------------------ keeping, letting go ----

void DatasetOpenings::keep(ServedDataset& dataset, engine::Keep keep) {
  dataset.pinned = keep == engine::Keep::always;
  inbox_.add(engine::DatasetKept{dataset.id, keep});
}

void DatasetOpenings::let_unused_go(Duration kept) {
  for (const auto& one : datasets_.all()) {
    const bool may_go = one->removed || (one->is_brought() && !one->pinned);
    if (!one->index || !may_go) continue;
    const bool is_used = jobs_.served().any_is_of(one->id) || inbox_.is_left(one->id) ||
                         pipelines_.is_at(one->id) || host_.reads(one->id);
    if (!is_idle(one->used, host_.now(), one->removed, is_used, kept)) continue;
    one->release();
    if (one->apart > 0) host_.give_back_of_data(std::exchange(one->apart, 0));
  }
}

}  // namespace batchflow::service
