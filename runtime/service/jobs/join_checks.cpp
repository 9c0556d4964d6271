#include "runtime/service/jobs/join_checks.h"

#include <algorithm>
#include <string_view>

#include "core/base/names.h"
#include "core/order/weights.h"
#include "fmt/format.h"

namespace batchflow::service {

std::string order_problem(const protocol::JoinRequest& request, std::uint64_t samples) {
  if (request.order == Order::listed)
    return "a listed order is not served by batchflowd, which has no word for a list; ask for "
           "strict, sequential, relaxed or weighted";
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
  return protocol::order_problem(request.order, request.batch_samples, request.order_options,
                                 request.exemplars);
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
  compare("rehearsed", here.rehearsed, there.rehearsed);
  return all;
}

}  // namespace batchflow::service
