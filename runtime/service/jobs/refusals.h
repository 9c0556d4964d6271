// Why a job is not served: because of what its request asks for, or because of the engine's answer,
// as a word for programs and a text that says what to do.
#pragma once

#include <string>
#include <string_view>

#include "core/engine/event.h"
#include "runtime/protocol/messages.h"
#include "runtime/service/datasets/datasets.h"

namespace batchflow::service {

// Why a rank may not join: a word for programs, and a text that says what to do. Without a text, it
// may.
struct Objection {
  std::string_view word;
  std::string text;

  explicit operator bool() const { return !text.empty(); }
};

// Empty, or why the dataset has no job that asks for this.
std::string request_problem(const protocol::JoinRequest& request, const ServedDataset& dataset);

// What differs between the requests of two ranks of one job, though it must be the same; empty:
// nothing.
std::string difference_of(const protocol::JoinRequest& one, const protocol::JoinRequest& other);

// After this answer a client asks again soon, this service or the next one.
inline constexpr std::string_view kNotYet = "not_yet";
inline constexpr std::string_view kEnding =
    "the service is ending and takes no new job; the next one will, so ask again";

std::string refusal_text(const engine::Refuse& command);

// What is said over a connection that is one too many of its user.
protocol::Refused too_many_connections();

}  // namespace batchflow::service
