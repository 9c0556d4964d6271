#include "runtime/service/datasets/joining.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "fmt/format.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {

bool shows(const protocol::Descriptor& one) {
  const int flags = fcntl(one.get(), F_GETFL);
  return flags >= 0 && (flags & O_PATH) == 0 && (flags & O_ACCMODE) != O_WRONLY;
}

namespace {

// A user who has opened the dataset's folder, or its only file, may read the dataset.
bool may_read(Peer& connection, const ServedDataset& dataset,
              const std::vector<protocol::Descriptor>& descriptors) {
  if (const AgentEnd* const agent = connection.agent(); agent && agent->may_read(dataset.id))
    return true;
  const sources::DataRoot& root = *dataset.opened;
  return is_trusted(connection) ||
         std::any_of(descriptors.begin(), descriptors.end(), [&](const protocol::Descriptor& one) {
           return shows(one) && sources::is_same_file(one.get(), root.shown());
         });
}

// What the client shows of this path; from here on that is the dataset. Null: it shows nothing.
// Throws DatasetError.
std::shared_ptr<const sources::DataRoot> shown_root(
    const std::filesystem::path& path, const std::vector<protocol::Descriptor>& descriptors) {
  for (const protocol::Descriptor& one : descriptors) {
    if (!shows(one)) continue;
    if (auto root = sources::open_shown(path, one.get())) return root;
  }
  return nullptr;
}

// A client opens the folder of a dataset that its job has named; a file, only if the job names the
// file.
void refuse_reading(Peer& connection, const std::filesystem::path& root, bool is_folder) {
  connection.send(protocol::encode(protocol::Refused{
                      "not_allowed",
                      fmt::format("user {} has not shown the right to read {}; give that user read "
                                  "access, and name it by this path",
                                  connection.user(), root.string()),
                      is_folder ? root.string() : ""}),
                  {});
  connection.end();
}

}  // namespace

bool is_trusted(const Peer& connection) {
  return connection.user() == geteuid() || connection.user() == 0;
}

void refuse_closed(Peer& connection, const std::filesystem::path& root, const std::string& closed) {
  refuse(connection, "not_allowed",
         fmt::format("{}: other users cannot read {}; make everything in this folder readable by "
                     "all, or have the service serve it by a name (--dataset NAME={})",
                     root.string(), closed, root.string()));
}

Joining::Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs,
                 JoiningHost host)
    : config_(config),
      datasets_(datasets),
      inbox_(inbox),
      jobs_(jobs),
      host_(std::move(host)),
      opener_(host_.post),
      openers_(host_.post) {}

void Joining::keep(ServedDataset& dataset, engine::Keep keep) {
  dataset.pinned = keep == engine::Keep::always;
  inbox_.add(engine::DatasetKept{dataset.id, keep});
}

void Joining::wait(Peer& connection, const std::string& name, protocol::JoinRequest request,
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

void Joining::join(Peer& connection, protocol::JoinRequest request,
                   std::vector<protocol::Descriptor> descriptors) {
  const bool is_path = !request.dataset.empty() &&
                       (request.dataset.front() == '/' || request.dataset.front() == '.');
  if (is_path) {
    const std::filesystem::path path = std::filesystem::path(request.dataset).lexically_normal();
    NodeDataset wanted;
    try {
      wanted = brought_dataset(path, request.reading);
    } catch (const ConfigError& error) {
      return refuse(connection, "bad_request", error.what());
    }
    const std::string name = served_names(wanted).front();
    const bool as_it_is = request.reading.empty();
    ServedDataset* known = as_it_is ? datasets_.find(path) : datasets_.find(std::string_view(name));
    // A dataset that was brought may have been replaced by now; while jobs read it, it stays what
    // it was.
    if (known && known->is_brought() && !jobs_.any_reads(known->id)) known = nullptr;
    // If the service's own dataset at this path is still being opened, the job waits for that, by
    // its name.
    const auto configured = std::find_if(opening_.begin(), opening_.end(), [&](const auto& one) {
      return as_it_is && one.second.path == path && !is_brought_name(one.first);
    });
    if (!known && configured != opening_.end())
      return wait(connection, configured->first, std::move(request), std::move(descriptors));
    if (!known && !config_.open_datasets)
      return refuse(connection, "unknown_dataset",
                    fmt::format("this service serves the datasets it was started with: {}; start "
                                "it with --dataset NAME={} or --open-datasets",
                                names(), request.dataset));
    if (!known && path.is_absolute()) {
      std::shared_ptr<const sources::DataRoot> shown;  // of the service's own user: what is there
      try {
        if (!is_trusted(connection)) {
          shown = shown_root(path, descriptors);
          if (!shown) return refuse_reading(connection, path, false);
        }
      } catch (const sources::DatasetError& error) {
        return refuse(connection, "bad_dataset", error.what());
      }
      if (opening_.count(name) == 0) {
        if (const auto [why, message] = opening_problem(wanted, connection); !why.empty())
          return refuse(connection, why, message);
        open_brought(wanted, shown, connection);
      }
      return wait(connection, name, std::move(request), std::move(descriptors));
    }
    if (known) request.dataset = known->name;
  }
  if (const auto found = opening_.find(request.dataset); found != opening_.end())
    return wait(connection, found->first, std::move(request), std::move(descriptors));
  ServedDataset* dataset = datasets_.find(std::string_view(request.dataset));
  if (!dataset) {
    if (const auto failed = failed_.extract(request.dataset)) {
      open(failed.mapped());
      return wait(connection, failed.key(), std::move(request), std::move(descriptors));
    }
  }
  if (!dataset)
    return refuse(
        connection, "unknown_dataset",
        fmt::format("no dataset is called '{}'; there are: {}", request.dataset, names()));
  enter(connection, request, descriptors, *dataset);
}

void Joining::enter(Peer& connection, const protocol::JoinRequest& request,
                    const std::vector<protocol::Descriptor>& descriptors, ServedDataset& dataset) {
  if (dataset.is_brought() && !dataset.closed.empty() && !is_trusted(connection))
    return refuse_closed(connection, dataset.root, dataset.closed);
  if (!may_read(connection, dataset, descriptors))
    return refuse_reading(connection, dataset.root, dataset.opened->only.empty());
  const auto then = [this, request, id = dataset.id,
                     waiting = connection.weak_from_this()](const std::string& problem) {
    const std::shared_ptr<Peer> one = waiting.lock();
    if (!one) return;
    ServedDataset& its = datasets_.dataset(id);
    if (!problem.empty()) return refuse(*one, "bad_dataset", problem);
    if (its.removed || !its.index)
      return refuse(*one, kNotYet,
                    fmt::format("dataset '{}' was replaced meanwhile; ask again", its.name));
    join(*one, request, its);
  };
  if (!host_.waits_for_agents || !host_.waits_for_agents(dataset.id, then))
    join(connection, request, dataset);
}

// Leaves out datasets that jobs have brought: their paths are their users'.
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

void Joining::let_unused_go() {
  let_pipelines_go(config_.brought_kept);
  let_folders_go(config_.brought_kept);
}

// What belongs to a removed dataset goes as soon as no job uses it.
bool Joining::is_idle(Instant& used, bool is_removed, bool is_used, Duration kept) const {
  if (is_used) used = host_.now();
  return !is_used && (is_removed || host_.now() - used >= kept);
}

void Joining::let_folders_go(Duration kept) {
  for (const auto& one : datasets_.all()) {
    const bool may_go = one->removed || (one->is_brought() && !one->pinned);
    if (!one->index || !may_go) continue;
    const bool is_used = jobs_.any_is_of(one->id) || inbox_.is_left(one->id) ||
                         opener_.is_at(one->id) || host_.reads(one->id);
    if (!is_idle(one->used, one->removed, is_used, kept)) continue;
    one->release();
    if (one->apart > 0) host_.give_back_of_data(std::exchange(one->apart, 0));
  }
}

void Joining::gone(const Peer& connection) {
  opener_.forget(&connection);
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

std::vector<std::string> Joining::opening() const {
  std::vector<std::string> names;
  for (const auto& [name, opening] : opening_) names.push_back(name);
  return names;
}

}  // namespace batchflow::service
