#include "runtime/service/jobs/mixtures.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/config_value.h"
#include "policies/registry.h"
#include "runtime/sources/path_ranges.h"

namespace batchflow::service {
namespace {

// Empty, with the reason in `problem`, if one is not there.
std::vector<SampleRange> ranges_of(const protocol::JoinRequest& request,
                                   const ServedDataset& dataset, std::string& problem) {
  std::vector<SampleRange> ranges;
  for (const protocol::WeighedSource& source : request.order_options.sources) {
    ranges.push_back(sources::samples_at(*dataset.index, source.name));
    if (ranges.back().samples > 0) continue;
    problem = fmt::format(
        "the dataset {} has nothing at '{}'; a source of a mixture is a folder or a file at its "
        "root: {}",
        dataset.name, source.name, sources::names_at_root(*dataset.index, 20));
    return {};
  }
  return ranges;
}

// Empty, or why the job's weights can have no such policy.
std::string policy_problem(const protocol::OrderOptions& options) {
  if (options.weights_policy.empty()) return "";
  try {
    policies::policy_list().choose(engine::PolicyKind::mixture, options.weights_policy);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

}  // namespace

std::optional<order::Position> mixture_position(const protocol::JoinRequest& request,
                                                const ServedDataset& dataset, std::uint64_t seed,
                                                std::string& problem) {
  const protocol::OrderOptions& options = request.order_options;
  problem = policy_problem(options);
  if (!problem.empty()) return std::nullopt;
  std::vector<double> weights;
  for (const protocol::WeighedSource& source : options.sources) weights.push_back(source.weight);
  std::vector<SampleRange> ranges = ranges_of(request, dataset, problem);
  if (!problem.empty()) return std::nullopt;
  std::uint64_t samples = 0;
  for (const SampleRange& range : ranges) samples += range.samples;
  order::Mixing::Fields fields =
      order::Mixing::beginning(std::move(ranges), order::Mixture::parts_of(weights));
  fields.shuffled = !options.sources_in_order;
  fields.may_change = options.may_change();
  for (const protocol::ScheduledWeights& one : options.schedule)
    fields.changes.push_back({one.at, order::Mixture::parts_of(one.weights)});
  std::stable_sort(
      fields.changes.begin(), fields.changes.end(),
      [](const order::MixtureChange& a, const order::MixtureChange& b) { return a.at < b.at; });
  auto mixing = order::Mixing::from(std::move(fields), dataset.index->samples(), problem);
  if (!mixing) return std::nullopt;
  return order::Position::mixed(std::move(*mixing), dataset.index->version(),
                                dataset.index->samples(), seed,
                                options.draws > 0 ? options.draws : samples);
}

std::string adopt_mixture(const protocol::JoinRequest& request, const ServedDataset& dataset,
                          order::Position& position) {
  order::Position::Fields at = position.fields();
  if (!at.mixing) return "the state is of another order than the job";
  // Sources of the same names may have other samples then.
  if (at.dataset_version != dataset.index->version())
    return fmt::format(
        "the state is of another version of the dataset ({:016x}, here is {:016x}); begin without "
        "it, or restore the data",
        at.dataset_version, dataset.index->version());
  std::string problem = policy_problem(request.order_options);
  if (!problem.empty()) return problem;
  const std::vector<SampleRange> ranges = ranges_of(request, dataset, problem);
  if (!problem.empty()) return problem;
  order::Mixing::Fields mixing = at.mixing->fields();
  if (mixing.sources != ranges)
    return "the state is of a mixture of other sources; begin without it, or name those";
  if (mixing.shuffled == request.order_options.sources_in_order)
    return "the state is of a mixture that is shuffled, and the job's is not, or the other way";
  if (request.order_options.draws > 0 && request.order_options.draws != at.draws)
    return fmt::format(
        "the state is of epochs of {} draws, and the job asks for {}; ask for as many, "
        "or begin without it",
        at.draws, request.order_options.draws);
  mixing.may_change = request.order_options.may_change();
  at.mixing = order::Mixing::from(std::move(mixing), at.samples, problem);
  if (problem.empty()) {
    if (auto adopted = order::Position::from(std::move(at), problem)) position = *adopted;
  }
  return problem;
}

}  // namespace batchflow::service
