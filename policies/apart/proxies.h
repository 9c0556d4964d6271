// Policies that decide nothing themselves: each call goes to Answering. Where that has no answer,
// they answer what starves no job and keeps what is kept (policies/plugin/fallback.h).
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
