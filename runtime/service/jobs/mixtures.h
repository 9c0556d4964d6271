// Jobs that read several sources of their dataset, each with a weight.
#pragma once

#include <optional>
#include <string>

#include "core/order/position.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/datasets/datasets.h"

namespace batchflow::service {

// Where such a job begins. Empty, with the reason in `problem`, if the dataset has no such sources.
std::optional<order::Position> mixture_position(const protocol::JoinRequest& request,
                                                const ServedDataset& dataset, std::uint64_t seed,
                                                std::string& problem);
// Why a job with this request cannot go on from `position`, which is that of another mixture;
// empty: it can, and `position` is now one of this job.
std::string adopt_mixture(const protocol::JoinRequest& request, const ServedDataset& dataset,
                          order::Position& position);

}  // namespace batchflow::service
