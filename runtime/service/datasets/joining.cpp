#include "runtime/service/datasets/joining.h"

#include <utility>

#include "fmt/format.h"
#include "runtime/service/datasets/dataset_splits.h"
#include "runtime/service/datasets/reading_rights.h"
#include "runtime/service/jobs/refusals.h"

namespace batchflow::service {

Joining::Joining(const NodeConfig& config, Datasets& datasets, Inbox& inbox, Jobs& jobs,
                 JoiningHost host)
    : config_(config),
      datasets_(datasets),
      jobs_(jobs),
      host_(std::move(host)),
      pipelines_(config, datasets, inbox, jobs, host_),
      openings_(config, datasets, inbox, jobs, pipelines_, host_,
                [this](DatasetOpenings::Waiting one, const DatasetOpenings::Result& result) {
                  opened(std::move(one), result);
                }) {}

void Joining::join(Peer& connection, protocol::JoinRequest request,
                   std::vector<protocol::Descriptor> descriptors) {
  const bool is_url = objects::is_url(request.dataset);
  const bool is_path = is_url || (!request.dataset.empty() && (request.dataset.front() == '/' ||
                                                               request.dataset.front() == '.'));
  if (is_path) {
    const std::filesystem::path path =
        is_url ? std::filesystem::path(request.dataset)
               : std::filesystem::path(request.dataset).lexically_normal();
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
    if (known && known->is_brought() && !jobs_.served().any_reads(known->id)) known = nullptr;
    // If the service's own dataset at this path is still being opened, the job waits for that, by
    // its name.
    const auto configured = as_it_is ? openings_.configured_at(path) : std::nullopt;
    if (!known && configured)
      return openings_.wait(connection, *configured, std::move(request), std::move(descriptors));
    if (!known && !config_.open_datasets)
      return refuse(connection, "unknown_dataset",
                    fmt::format("this service serves the datasets it was started with: {}; start "
                                "it with --dataset NAME={} or --open-datasets",
                                names(), request.dataset));
    if (!known && is_url && !is_trusted(connection)) return refuse_url(connection, path);
    if (!known && (is_url || path.is_absolute())) {
      std::shared_ptr<const sources::DataRoot> shown;  // of the service's own user: what is there
      try {
        if (!is_trusted(connection)) {
          shown = shown_root(path, descriptors);
          if (!shown) return refuse_reading(connection, path, false);
        }
      } catch (const sources::DatasetError& error) {
        return refuse(connection, "bad_dataset", error.what());
      }
      if (!openings_.has(name)) {
        if (const auto [why, message] = openings_.opening_problem(wanted, connection); !why.empty())
          return refuse(connection, why, message);
        openings_.open_brought(wanted, shown, connection);
      }
      return openings_.wait(connection, name, std::move(request), std::move(descriptors));
    }
    if (known) request.dataset = known->name;
  }
  ServedDataset* dataset = nullptr;
  if (!openings_.has(request.dataset)) {
    dataset = datasets_.find(std::string_view(request.dataset));
    if (!dataset) openings_.try_again(request.dataset);
  }
  if (openings_.has(request.dataset)) {
    const std::string name = request.dataset;
    return openings_.wait(connection, name, std::move(request), std::move(descriptors));
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
  if (dataset.opened->is_of_store() && !may_read(connection, dataset, descriptors))
    return refuse_url(connection, dataset.root);
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

void Joining::opened(DatasetOpenings::Waiting one, const DatasetOpenings::Result& result) {
  const std::shared_ptr<Peer> connection = one.connection.lock();
  if (!connection) return;
  const bool is_closed = !result.closed.empty();
  if (result.served) {
    enter(*connection, one.request, one.descriptors, *result.served);
  } else if (is_closed && !is_trusted(*connection)) {
    // That user may not know what else is wrong in there.
    refuse_closed(*connection, result.asked.path, result.closed);
  } else if (is_closed && !result.was_for_trusted) {
    // It was looked at for another user, who may not have it.
    join(*connection, std::move(one.request), std::move(one.descriptors));
  } else {
    refuse(*connection, "bad_dataset", result.problem);
  }
}

void Joining::gone(const Peer& connection) {
  pipelines_.gone(connection);
  openings_.gone(connection);
}

void Joining::join(Peer& connection, const protocol::JoinRequest& request, ServedDataset& dataset) {
  std::string name;
  const bool is_brought = JobPipelines::is_brought(request);
  ServedPipeline* pipeline = nullptr;
  try {
    pipeline = pipelines_.find_for(connection, request, dataset, name);
  } catch (const std::exception& error) {
    return refuse(connection, "unknown_pipeline", error.what());
  }
  if (pipeline) return join(connection, request, dataset, *pipeline);
  const auto then = [this, name, request, is_brought, id = dataset.id,
                     waiting = connection.weak_from_this()] {
    const std::shared_ptr<Peer> one = waiting.lock();
    if (!one) return;
    ServedDataset& its = datasets_.dataset(id);
    const std::string* const failed = pipelines_.refusal(name, id);
    if (is_brought && (its.removed || !its.index))
      return refuse(*one, kNotYet,
                    fmt::format("dataset '{}' was replaced meanwhile; ask again", its.name));
    // A pipeline that was brought is known by its text now.
    if (is_brought && !failed) return join(*one, request, its);
    ServedPipeline* const made = is_brought ? nullptr : datasets_.find(name, id);
    if (its.removed)
      return refuse(*one, "unknown_dataset",
                    fmt::format("dataset '{}' is served no more", its.name));
    if (!made) return refuse(*one, "unknown_pipeline", *failed);
    join(*one, request, its, *made);
  };
  if (!pipelines_.wait(name, dataset.id, connection, then))
    refuse(connection, "bad_request", "this connection waits for a pipeline already");
}

// Agents set up steps of users in their own time.
void Joining::join(Peer& connection, const protocol::JoinRequest& request, ServedDataset& dataset,
                   ServedPipeline& pipeline) {
  dataset.used = pipeline.used = host_.now();
  const auto then = [this, request, at = dataset.id, id = pipeline.id,
                     waiting = connection.weak_from_this()](const std::string& problem) {
    const std::shared_ptr<Peer> one = waiting.lock();
    if (!one) return;
    if (!problem.empty()) return refuse(*one, "unknown_pipeline", problem);
    ServedDataset& its = datasets_.dataset(at);
    ServedPipeline& made = datasets_.pipeline(id);
    if (its.removed || !its.index || !made.pipeline)
      return refuse(*one, kNotYet,
                    fmt::format("pipeline '{}' was let go meanwhile; ask again", made.name));
    jobs_.join(*one, request, its, made, host_.now());
  };
  if (!host_.waits_for_agents || !host_.waits_for_agents(pipeline.id, then))
    jobs_.join(connection, request, dataset, pipeline, host_.now());
}

// Leaves out datasets that jobs have brought: their paths are their users'.
std::string Joining::names() const {
  std::string all;
  for (const auto& one : datasets_.all()) {
    if (!one->removed && !one->is_brought()) all += (all.empty() ? "" : ", ") + one->name;
  }
  for (const std::string& name : openings_.names()) {
    if (!is_brought_name(name)) all += (all.empty() ? "" : ", ") + name;
  }
  return all.empty() ? "none" : all;
}

void Joining::let_unused_go() {
  pipelines_.let_unused_go(config_.brought_kept);
  openings_.let_unused_go(config_.brought_kept);
}

}  // namespace batchflow::service
