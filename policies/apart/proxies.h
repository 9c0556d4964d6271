// Policies that decide nothing themselves: each call goes to Answering. Where that has no answer,
// they answer what starves no job and keeps what is kept (policies/plugin/fallback.h).
//
// An eviction policy is asked often, of one sample after the other. So its proxy asks for all
// requests that a block is about to make at once, and the other side plays them through as the
// share will (plays.h). Where the share then goes another way, because what was named is in use,
// the plays that did not happen are undone, and the rest is asked for again.
#pragma once

#include <cstdint>

#include "core/engine/policy_list.h"
#include "policies/apart/calls.h"

namespace batchflow::apart {

// PolicyEntry::plugin of a policy that is a proxy.
struct ProxySource {
  Answering* answering = nullptr;
  std::uint32_t policy = 0;  // its index in the plugin
};

decltype(engine::PolicyEntry::make) proxy_of(engine::PolicyKind kind);

}  // namespace batchflow::apart
