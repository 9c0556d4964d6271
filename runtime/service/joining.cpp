#include "runtime/service/joining.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "runtime/failpoint/failpoint.h"
#include "runtime/service/dataset_splits.h"
#include "runtime/service/refusals.h"

namespace batchflow {
namespace {

// Of datasets that are being opened at once, whoever asks for them.
constexpr std::size_t kOpeningMost = 16;
// Samples of all folders that one user's jobs have ever brought: the engine keeps their sizes.
constexpr std::uint64_t kBroughtSamplesMost = std::uint64_t{1} << 28;

// That it is what was opened, and not another folder in its place.
bool is_still_there(const ServedDataset& dataset) {
  return place_id(AT_FDCWD, root_folder(dataset.root).c_str()) == dataset.place;
}

bool is_trusted(const Connection& session) {
  return session.user() == geteuid() || session.user() == 0;
}

// Who has opened the dataset's folder, or its file where that is all of it, may read it. `name` is
// that file below `folder`, or empty.
bool may_read(const Connection& session, int folder, const char* name,
              const std::vector<Descriptor>& descriptors) {
  if (is_trusted(session)) return true;
  struct stat root {};
  if (fstatat(folder, name, &root, AT_EMPTY_PATH) != 0) return false;
  for (const Descriptor& one : descriptors) {
    struct stat status {};
    const int flags = fcntl(one.get(), F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) continue;
    if (fstat(one.get(), &status) == 0 && status.st_dev == root.st_dev &&
        status.st_ino == root.st_ino)
      return true;
  }
  return false;
}

void refuse_closed(Connection& session, const std::filesystem::path& root,
                   const std::string& closed) {
  refuse(session, "not_allowed",
         fmt::format("{}: not everybody may read {}, and a service reads what it may, whoever "
                     "asks; let all of this folder be read by all, or have the service serve it by "
                     "a name (--dataset NAME={})",
                     root.string(), closed, root.string()));
}

// A client opens the folder of a dataset that its job has named; a file only if the job names that.
void refuse_reading(Connection& session, const std::filesystem::path& root, bool is_folder) {
  session.send(encode(Refused{"not_allowed",
                              fmt::format("user {} has not shown that he may read {}; let him read "
                                          "it, and name it by this path",
                                          session.user(), root.string()),
                              is_folder ? root.string() : ""}),
               {});
  session.end();
}

}  // namespace

Joining::Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs,
                 JoiningHost host)
    : config_(config),
      datasets_(datasets),
      inbox_(inbox),
      jobs_(jobs),
      host_(std::move(host)),
      opener_(host_.post) {}

Joining::~Joining() {
  stopping_ = true;
  for (auto& [number, opener] : openers_) {
    if (opener.joinable()) opener.join();
  }
}

void Joining::open(const NodeDataset& dataset, uid_t by) {
  const std::uint64_t number = next_++;
  for (const std::string& name : served_names(dataset)) {
    opening_[name] = {number, dataset.path, by, {}};
    failed_.erase(name);
  }
  const auto work = [this, number, dataset] {
    const auto began_opening = std::chrono::steady_clock::now();
    const std::vector<OpenedIndex> all =
        open_with_splits(dataset, config_.state / "indices", [this] { return stopping_.load(); });
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_opening).count();
    host_.post([this, number, dataset, all, took] { opened(number, dataset, all, took); });
  };
  try {
    if (BF_FAILPOINT("service.dataset.thread"))
      throw std::system_error(EAGAIN, std::generic_category());
    openers_[number] = std::thread(work);
  } catch (const std::system_error& error) {
    // Not before who asks for it waits.
    std::vector<OpenedIndex> none;
    for (const std::string& name : served_names(dataset))
      none.push_back(
          {name, nullptr, nullptr, "no thread to open it: " + error.code().message(), {}});
    host_.post([this, number, dataset, none] { opened(number, dataset, none, 0); });
  }
}

void Joining::opened(std::uint64_t number, const NodeDataset& dataset,
                     const std::vector<OpenedIndex>& all, double took) {
  if (const auto opener = openers_.extract(number); opener && opener.mapped().joinable())
    opener.mapped().join();
  const bool has_failed = std::none_of(all.begin(), all.end(),
                                       [](const OpenedIndex& one) { return one.index != nullptr; });
  // Not one that a job has named by its path, which anybody may do any number of times.
  for (const OpenedIndex& one : all) {
    const auto waited_for = opening_.find(one.name);
    if (has_failed && !dataset.is_brought() && waited_for != opening_.end() &&
        waited_for->second.number == number)
      failed_.insert_or_assign(one.name, dataset);
    NodeDataset part = dataset;
    part.name = one.name;
    opened(number, part, one, took);
  }
}

void Joining::opened(std::uint64_t number, const NodeDataset& dataset, const OpenedIndex& made,
                     double took) {
  const auto& [name, index, catalogue, why, closed] = made;
  std::string problem = why;
  const auto found = opening_.find(dataset.name);
  if (found == opening_.end() || found->second.number != number) return;  // removed meanwhile
  std::vector<Waiting> waiting = std::move(found->second.waiting);
  const uid_t by = found->second.by;
  opening_.erase(found);
  ServedDataset* served = nullptr;
  ServedDataset* const before = datasets_.find(std::string_view(dataset.name));
  try {
    const bool same = index && before && before->version == index->version() &&
                      before->listing == index->listing();
    if (same && is_still_there(*before)) {
      if (!before->index) datasets_.add_again(*before, index);
      served = before;
    } else if (index) {
      served = &add(dataset, index, std::move(*catalogue), by, took);
    }
    if (served) served->closed = closed;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!served) {
    // Jobs may have it tried as often as they like; the service itself does so once.
    const bool is_asked_for = dataset.is_brought() || !waiting.empty();
    host_.say({fmt::format("dataset {}: {}", dataset.name, problem), LogLevel::error,
               is_asked_for ? "dataset" : "",
               dataset.is_brought() ? std::optional(by) : std::nullopt});
  }
  for (Waiting& one : waiting) {
    const std::shared_ptr<Connection> session = one.session.lock();
    if (!session) continue;
    if (served) {
      enter(*session, one.request, one.descriptors, *served);
    } else if (dataset.is_brought() && !closed.empty() && !is_trusted(*session)) {
      refuse_closed(*session, dataset.path, closed);  // what is wrong in there is not for him
    } else {
      refuse(*session, "bad_dataset", problem);
    }
  }
}

ServedDataset& Joining::add(const NodeDataset& dataset, std::shared_ptr<SampleIndex> index,
                            Catalogue&& catalogue, uid_t by, double took) {
  const bool is_brought = dataset.is_brought();
  std::uint64_t& samples = brought_samples_[by];
  if (is_brought && !catalogue.is_uniform() && samples + catalogue.samples() > kBroughtSamplesMost)
    throw DatasetError(fmt::format(
        "jobs of user {} have brought folders of {} samples since the service began, and {} are "
        "the most; serve this one by a name (--dataset NAME={}), or start the service anew",
        by, samples, kBroughtSamplesMost, dataset.path.string()));
  bool pin = dataset.pin;
  if (ServedDataset* const before = datasets_.find(std::string_view(dataset.name))) {
    pin = pin || (is_brought && before->pinned);
    remove(*before);
    if (is_brought) keep(*before, Keep::dropped);
  }
  const std::string summary = fmt::format(
      "dataset {}: {} samples, {:.1f} MiB, {} classes, version {:016x}, opened in {:.2f} s",
      dataset.name, index->samples(), static_cast<double>(catalogue.total_bytes()) / 1048576,
      index->classes().size(), index->version(), took);
  if (is_brought && !catalogue.is_uniform()) samples += catalogue.samples();
  ServedDataset& served =
      datasets_.add(dataset.name, dataset.path, std::move(index), std::move(catalogue));
  served.pipeline = dataset.pipeline;
  served.format = dataset.format;
  served.tokens = dataset.tokens;
  served.brought_by = by;
  served.used = host_.now();
  const auto say = [&](const std::string& what, LogLevel level) {
    host_.say(is_brought ? LogLine(what, level, "dataset", by) : LogLine(what, level));
  };
  for (const std::string& note : served.index->notes())
    say(fmt::format("dataset {}: {}", dataset.name, note), LogLevel::warning);
  inbox_.add(CatalogueKnown{served.id, served.version});
  if (pin) keep(served, Keep::always);
  say(summary, LogLevel::info);
  return served;
}

void Joining::remove(const NodeDataset& dataset) {
  for (const std::string& name : served_names(dataset)) {
    failed_.erase(name);
    if (const auto found = opening_.find(name); found != opening_.end()) {
      for (const Waiting& one : found->second.waiting) {
        if (const std::shared_ptr<Connection> session = one.session.lock())
          refuse(*session, "unknown_dataset", fmt::format("dataset '{}' is served no more", name));
      }
      opening_.erase(found);
    } else if (ServedDataset* const served = datasets_.find(std::string_view(name))) {
      remove(*served);
    }
  }
}

void Joining::remove(ServedDataset& dataset) {
  datasets_.remove(dataset);
  if (dataset.pinned) keep(dataset, Keep::as_needed);
}

void Joining::keep(ServedDataset& dataset, Keep keep) {
  dataset.pinned = keep == Keep::always;
  inbox_.add(DatasetKept{dataset.id, keep});
}

void Joining::wait(Connection& session, const std::string& name, JoinRequest request,
                   std::vector<Descriptor> descriptors) {
  for (const auto& [other, opening] : opening_) {
    for (const Waiting& one : opening.waiting) {
      if (one.session.lock().get() == &session)
        return refuse(session, "bad_request", "this connection waits for a dataset already");
    }
  }
  opening_.at(name).waiting.push_back(
      {session.weak_from_this(), std::move(request), std::move(descriptors)});
}

void Joining::join(Connection& session, JoinRequest request, std::vector<Descriptor> descriptors) {
  const bool is_path = !request.dataset.empty() &&
                       (request.dataset.front() == '/' || request.dataset.front() == '.');
  if (is_path) {
    const std::filesystem::path path = std::filesystem::path(request.dataset).lexically_normal();
    NodeDataset wanted;
    try {
      wanted = brought_dataset(path, request.reading);
    } catch (const ConfigError& error) {
      return refuse(session, "bad_request", error.what());
    }
    const std::string name = served_names(wanted).front();
    const bool as_it_is = request.reading.empty();
    ServedDataset* known = as_it_is ? datasets_.find(path) : datasets_.find(std::string_view(name));
    // One that was brought may be another by now; while jobs read it, it stays what it was.
    if (known && known->is_brought() && !jobs_.any_reads(known->id)) known = nullptr;
    // One of the service's own that is still being opened is waited for by its name.
    const auto configured = std::find_if(opening_.begin(), opening_.end(), [&](const auto& one) {
      return as_it_is && one.second.path == path && !is_brought_name(one.first);
    });
    if (!known && configured != opening_.end())
      return wait(session, configured->first, std::move(request), std::move(descriptors));
    if (!known && !config_.open_datasets)
      return refuse(session, "unknown_dataset",
                    fmt::format("this service serves the datasets it was started with: {}; start "
                                "it with --dataset NAME={} or --open-datasets",
                                names(), request.dataset));
    if (!known && path.is_absolute()) {
      if (!may_read(session, AT_FDCWD, path.c_str(), descriptors))
        return refuse_reading(session, path, false);
      if (opening_.count(name) == 0) {
        if (opening_.size() >= kOpeningMost)
          return refuse(session, kNotYet, "many datasets are being opened; ask again soon");
        const auto has_too_many = [&] {
          return std::count_if(
                     datasets_.all().begin(), datasets_.all().end(), [&](const auto& one) {
                       return one->is_brought() && one->index && one->brought_by == session.user();
                     }) >= static_cast<std::ptrdiff_t>(kBroughtMost);
        };
        if (has_too_many()) let_folders_go(Duration(0));
        if (has_too_many())
          return refuse(session, "quota",
                        fmt::format("jobs of user {} read {} folders that they have named by "
                                    "their paths; have some served by a name (--dataset NAME={})",
                                    session.user(), kBroughtMost, path.string()));
        open(wanted, session.user());
      }
      return wait(session, name, std::move(request), std::move(descriptors));
    }
    if (known) request.dataset = known->name;
  }
  if (const auto found = opening_.find(request.dataset); found != opening_.end())
    return wait(session, found->first, std::move(request), std::move(descriptors));
  ServedDataset* dataset = datasets_.find(std::string_view(request.dataset));
  if (!dataset) {
    if (const auto failed = failed_.extract(request.dataset)) {
      open(failed.mapped());
      return wait(session, failed.key(), std::move(request), std::move(descriptors));
    }
  }
  if (!dataset)
    return refuse(
        session, "unknown_dataset",
        fmt::format("no dataset is called '{}'; there are: {}", request.dataset, names()));
  enter(session, request, descriptors, *dataset);
}

void Joining::enter(Connection& session, const JoinRequest& request,
                    const std::vector<Descriptor>& descriptors, ServedDataset& dataset) {
  if (dataset.is_brought() && !dataset.closed.empty() && !is_trusted(session))
    return refuse_closed(session, dataset.root, dataset.closed);
  if (!may_read(session, dataset.root_descriptor, dataset.only.c_str(), descriptors))
    return refuse_reading(session, dataset.root, dataset.only.empty());
  join(session, request, dataset);
}

// Not those that jobs have brought, whose paths are their users'.
std::string Joining::names() const {
  std::string all;
  for (const auto& one : datasets_.all()) {
    if (!one->removed && !one->is_brought()) all += (all.empty() ? "" : ", ") + one->name;
  }
  for (const auto& [name, opening] : opening_) {
    if (!is_brought_name(name)) all += (all.empty() ? "" : ", ") + name;
  }
  return all.empty() ? "none" : all;
}

void Joining::let_go() {
  let_pipelines_go(config_.brought_kept);
  let_folders_go(config_.brought_kept);
}

// What belongs to a data set that was removed goes as soon as nobody uses it.
bool Joining::is_idle(Instant& used, bool is_removed, bool is_used, Duration kept) const {
  if (is_used) used = host_.now();
  return !is_used && (is_removed || host_.now() - used >= kept);
}

void Joining::let_folders_go(Duration kept) {
  for (const auto& one : datasets_.all()) {
    const bool may_go = one->removed || (one->is_brought() && !one->pinned);
    if (!one->index || !may_go) continue;
    const bool is_used = jobs_.any_is_of(one->id) || opener_.is_at(one->id) || host_.reads(one->id);
    if (is_idle(one->used, one->removed, is_used, kept)) one->let_go();
  }
}

void Joining::gone(const Connection& session) {
  opener_.forget(&session);
  for (auto& [name, opening] : opening_)
    std::erase_if(opening.waiting,
                  [&](const Waiting& one) { return one.session.lock().get() == &session; });
}

std::vector<std::string> Joining::opening() const {
  std::vector<std::string> names;
  for (const auto& [name, opening] : opening_) names.push_back(name);
  return names;
}

}  // namespace batchflow
