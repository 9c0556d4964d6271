// What a request to join must be, beside what its message can check.
#pragma once

#include <string>

#include "runtime/protocol/messages.h"

namespace batchflow::service {

// Empty, or why no job of a dataset of so many samples can have such an order.
std::string order_problem(const protocol::JoinRequest& request, std::uint64_t samples);

// In what the requests of two ranks of one job differ, though it must be the same; empty: nothing.
std::string difference_of(const protocol::JoinRequest& one, const protocol::JoinRequest& other);

}  // namespace batchflow::service
