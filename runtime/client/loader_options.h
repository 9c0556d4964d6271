// The options of a loader: checked, and as its service gets them.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/client/batchflow.h"
#include "runtime/protocol/channel.h"
#include "runtime/protocol/messages.h"

namespace batchflow::client {

// Empty, or what is wrong with the options and what to write instead.
std::string options_problem(const bf_loader_options& options);
std::string too_many_exemplars(std::size_t count);
bool are_seconds(double seconds);
// 0 seconds: `otherwise`.
protocol::Channel::Clock::duration duration_of(double seconds, double otherwise);
protocol::JoinRequest request_of(const bf_loader_options& options);
// Opens a dataset that is given as a path. The open descriptor proves to the service that this user
// can read the data. Answers why it cannot be read; empty: it is a name, or is open.
std::string show_dataset(const char* dataset, protocol::JoinRequest& request,
                         protocol::Descriptor& shown);

}  // namespace batchflow::client
