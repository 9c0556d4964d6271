#include "runtime/service/jobs/refusals.h"

#include <algorithm>
#include <string_view>

#include "core/base/config_value.h"
#include "core/base/names.h"
#include "core/engine/policy_list.h"
#include "core/order/replacement.h"
#include "core/order/weights.h"
#include "fmt/format.h"
#include "policies/registry.h"
#include "runtime/service/jobs/peer.h"

namespace batchflow::service {

namespace {

constexpr std::uint32_t kRanksMost = 4096;
constexpr std::size_t kNameMost = 256;

// Empty, or why the records of a feed cannot come in that order.
std::string order_problem_of_feed(const protocol::JoinRequest& request) {
  if (request.order == Order::live) return {};
  return fmt::format(
      "'{0}' is a feed, and a job has its records in the order in which they come: ask for it as a "
      "feed (in Python DataLoader(Live(\"{0}\")), in C BF_LIVE)",
      request.dataset);
}

// Empty, or why the samples of a dataset that does not grow cannot come in that order.
std::string order_problem_of_others(const protocol::JoinRequest& request) {
  if (request.order != Order::live || request.order_options.keyed) return {};
  return fmt::format(
      "'{0}' is no feed, so no records come to it: ask for another order (in Python "
      "DataLoader(\"{0}\"), without Live; subscribe() is for feeds)",
      request.dataset);
}

// Empty, or why no job of the dataset can have such an order.
std::string order_problem(const protocol::JoinRequest& request, const ServedDataset& dataset) {
  const std::uint64_t samples = dataset.index->samples();
  if (dataset.is_feed) {
    if (std::string problem = order_problem_of_feed(request); !problem.empty()) return problem;
  }
  if (request.order == Order::listed)
    return "a listed order is not served by batchflowd, which has no word for a list; ask for "
           "strict, sequential, relaxed, weighted or mixed";
  if (request.order == Order::weighted && samples > order::kWeightedSamplesMost)
    return fmt::format(
        "a weighted order of {} samples, and each has a weight; it may have {} samples: ask for "
        "another order, or for a split of the dataset",
        samples, order::kWeightedSamplesMost);
  const auto beyond = std::find_if(request.exemplars.begin(), request.exemplars.end(),
                                   [&](SampleId sample) { return sample.value >= samples; });
  if (beyond != request.exemplars.end())
    return fmt::format("sample {} is among the exemplars; write keys below {}", beyond->value,
                       samples);
  if (request.order_options.runs && dataset.bundle_shift == 0)
    return fmt::format(
        "runs are to be shuffled, and the dataset {} has none: samples are read in runs where they "
        "lie side by side in their files and take at most 16 KiB on average; shuffle samples "
        "instead (in Python: shuffle=True)",
        dataset.name);
  if (const std::string& policy = request.order_options.buffer_policy; !policy.empty()) {
    try {
      policies::policy_list().choose(engine::PolicyKind::rehearsal, policy);
    } catch (const ConfigError& error) {
      return error.what();
    }
  }
  std::string problem = protocol::order_problem(request.order, request.batch_samples,
                                                request.order_options, request.exemplars);
  return problem.empty() && !dataset.is_feed ? order_problem_of_others(request) : problem;
}

}  // namespace

std::string request_problem(const protocol::JoinRequest& request, const ServedDataset& dataset) {
  if (request.world_size == 0 || request.rank >= request.world_size)
    return fmt::format("rank {} of {} does not exist; ranks count from 0", request.rank,
                       request.world_size);
  if (request.world_size > kRanksMost)
    return fmt::format("{} ranks; a job has at most {} on a node", request.world_size, kRanksMost);
  if (request.job.size() > kNameMost)
    return fmt::format("a job's name of {} bytes; it may have {}", request.job.size(), kNameMost);
  if (request.order_options.keyed && (request.world_size != 1 || !request.state.empty()))
    return "samples are asked for by their keys by one rank, which has no state; leave the rest "
           "out";
  if (request.batch_samples == 0) return "a batch of no samples; ask for batch_size 1 or more";
  return order_problem(request, dataset);
}

std::string difference_of(const protocol::JoinRequest& one, const protocol::JoinRequest& other) {
  std::string all;
  const auto compare = [&](std::string_view what, const auto& here, const auto& there) {
    if (here == there) return;
    all += fmt::format("{}{} {} and {}", all.empty() ? "" : ", ", what, here, there);
  };
  const protocol::OrderOptions& here = one.order_options;
  const protocol::OrderOptions& there = other.order_options;
  compare("world size", one.world_size, other.world_size);
  compare("batches of", one.batch_samples, other.batch_samples);
  compare("order", name_of(one.order), name_of(other.order));
  compare("draws", here.draws, there.draws);
  compare("multinomial", here.multinomial, there.multinomial);
  compare("node_local", here.node_local, there.node_local);
  compare("runs", here.runs, there.runs);
  compare("rehearsed", here.rehearsed, there.rehearsed);
  compare("exemplars of the buffer", here.buffer_exemplars, there.buffer_exemplars);
  compare("its policy", here.buffer_policy, there.buffer_policy);
  compare("its name", here.buffer_name, there.buffer_name);
  compare("sources in order", here.sources_in_order, there.sources_in_order);
  compare("weights that change", here.weights_change, there.weights_change);
  compare("a policy of weights", here.weights_policy, there.weights_policy);
  if (here.sources != there.sources) all += all.empty() ? "sources" : ", sources";
  if (here.schedule != there.schedule) all += all.empty() ? "schedule" : ", schedule";
  return all;
}

std::string refusal_text(const engine::Refuse& command) {
  const auto bytes = [](std::uint64_t count) {
    return fmt::format("{:.1f} MiB", static_cast<double>(count) / 1048576);
  };
  switch (command.why) {
    case engine::Refusal::no_room:
      return fmt::format(
          "there is no room for its batches: it needs {} of memory and {} are left; "
          "give the service more memory (--memory) or smaller blocks (engine: block_bytes), or "
          "ask for batches that are no larger than a block",
          bytes(command.needed), bytes(command.available));
    case engine::Refusal::unknown_dataset:
      return "the service does not know the dataset any more";
    case engine::Refusal::unknown_pipeline:
      return fmt::format(
          "the pipeline is another one by now ({:016x}, the job was trained with "
          "{:016x}); begin a new job, or restore the pipeline",
          command.available, command.needed);
    case engine::Refusal::bad_position:
      return fmt::format(
          "the state does not fit this job (it says {:016x}, here is {:016x}): it is of another "
          "dataset, shuffle_seed or user, or differs in whether runs are shuffled; begin without a "
          "state, or restore what it was made with",
          command.needed, command.available);
    case engine::Refusal::bad_request:
      return "such a job cannot be served: look at its batch size, which must be at least 1 and, "
             "if the tail is dropped, at most the dataset over the ranks; of a feed no large prime "
             "number, which blocks of a few thousand records cannot cut (ask for 4100, not 4099)";
    case engine::Refusal::rank_lost:
      return "one of its ranks has ended, or its connection has; start all of them again, with a "
             "state that was saved before";
    case engine::Refusal::too_many_corrupt: {
      constexpr std::string_view kWhere =
          "the service's log says which and why (of a service that a script started: embedded.log "
          "beside its socket), batchflowctl verify finds all that cannot be decoded";
      if (command.needed > command.available)
        return fmt::format(
            "{} samples cannot be prepared, {} may be so; {}; mend them, or allow more: "
            "DataLoader(..., corrupt_ratio_max=0.01), which every service allows that a script "
            "started, and others as far as corrupt_ratio_allowed of their node file says",
            command.needed, command.available, kWhere);
      // The bound has room for more of them, so a higher one would change nothing.
      return fmt::format(
          "none of {} tries found a sample that can be prepared in place of a corrupt one: {} "
          "samples are known that cannot be prepared, though {} may be so; {}; mend them, or leave "
          "them out of the dataset",
          order::kReplacementAttemptsMost, command.needed, command.available, kWhere);
    }
    case engine::Refusal::storage_failed:
      return "reading the dataset failed again and again; see the service's log";
    case engine::Refusal::no_workers:
      return "no worker could prepare batches for it; see the service's log";
    case engine::Refusal::nothing_to_draw:
      return "all scores are 0 or below, so nothing can be drawn; report some above";
    case engine::Refusal::wrong_order:
      return "this order does not go with what else the job asks for: an order for each node "
             "(node_local) and shuffled runs need a relaxed order, and a service with a selection "
             "policy that does not choose the samples of blocks (batchflowctl policy list)";
    case engine::Refusal::other_buffer:
      if (command.needed == command.available)
        return "its buffer was made by a job with another policy; ask for that one, or give the "
               "buffer another name";
      if (command.available == 0)
        return fmt::format(
            "there is no room for a buffer of {} exemplars beside those that other jobs have; ask "
            "for fewer",
            command.needed);
      return fmt::format(
          "its buffer was made by a job that asked for {} exemplars, and this one asks for {}; ask "
          "for as many, or give the buffer another name",
          command.available, command.needed);
  }
  return "the service refuses the job";
}

void refuse(Peer& peer, std::string_view why, std::string_view message) {
  peer.send(protocol::encode(protocol::Refused{std::string(why), std::string(message)}), {});
  peer.end();
}

protocol::Refused too_many_connections() {
  return {"quota", "this user has all the connections that the quota allows"};
}

}  // namespace batchflow::service
