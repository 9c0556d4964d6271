#include "runtime/protocol/order_options.h"

#include <fmt/format.h>

#include "core/base/names.h"
#include "core/order/rehearsal.h"
#include "core/order/weights.h"

namespace batchflow::protocol {
namespace {

std::string draws_problem(Order order, const OrderOptions& options) {
  if (order != Order::weighted && options.draws > 0)
    return fmt::format(
        "'draws' is {}, and a {} order has each sample once; ask for a weighted order, or leave "
        "it out",
        options.draws, name_of(order));
  if (order != Order::weighted && options.multinomial)
    return fmt::format(
        "'drawing' is multinomial, and a {} order is not drawn; ask for a weighted order, or leave "
        "it out",
        name_of(order));
  if (options.draws > order::kWeightedSamplesMost)
    return fmt::format("'draws' is {}; an epoch may have {} draws", options.draws,
                       order::kWeightedSamplesMost);
  return {};
}

std::string rehearsal_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options,
                              std::span<const SampleId> exemplars) {
  if (options.rehearsed == 0 && !exemplars.empty())
    return fmt::format(
        "{} exemplars are given, and 'rehearsed' is 0; write how many samples of each batch are "
        "rehearsed",
        exemplars.size());
  if (options.rehearsed == 0) return {};
  if (order == Order::weighted || order == Order::listed)
    return fmt::format(
        "'rehearsed' is for a strict, sequential or relaxed order, and this one is {}; ask for one "
        "of those, or leave it out",
        name_of(order));
  if (options.rehearsed >= batch_samples)
    return fmt::format(
        "'rehearsed' is {} of a batch of {}, which leaves no room for new samples; write less than "
        "the batch",
        options.rehearsed, batch_samples);
  if (exemplars.size() > order::kExemplarsMost)
    return fmt::format("{} exemplars; a buffer holds {}", exemplars.size(), order::kExemplarsMost);
  return {};
}

}  // namespace

std::string order_problem(Order order, std::uint32_t batch_samples, const OrderOptions& options,
                          std::span<const SampleId> exemplars) {
  if (std::string problem = draws_problem(order, options); !problem.empty()) return problem;
  if (options.node_local && order != Order::relaxed)
    return fmt::format(
        "'node_local' is for a relaxed order, which alone has a sequence for each node, and this "
        "one is {}; ask for relaxed, or leave it out",
        name_of(order));
  if (options.runs && order != Order::relaxed)
    return fmt::format(
        "'runs' is for a relaxed order, and this one is {}; ask for relaxed, or leave it out",
        name_of(order));
  return rehearsal_problem(order, batch_samples, options, exemplars);
}

}  // namespace batchflow::protocol
