// policies/make.h of plugins: the factories that entries of policies point to.
#pragma once

#include <memory>

#include "core/engine/policy.h"
#include "policies/plugin/guarded.h"

namespace batchflow::policies {

template <class Interface, class Policy>
std::unique_ptr<Interface> make_policy(const engine::PolicyContext& context) {
  return std::make_unique<plugin::Guarded<Policy>>(context);
}

template <class Policy>
std::unique_ptr<engine::EvictionPolicy> make_eviction(const engine::EvictionContext& context) {
  return std::make_unique<plugin::Guarded<Policy>>(context);
}

template <class Policy>
std::unique_ptr<engine::RehearsalPolicy> make_rehearsal(const engine::RehearsalContext& context) {
  return std::make_unique<plugin::Guarded<Policy>>(context);
}

template <class Policy>
std::unique_ptr<engine::MixturePolicy> make_mixture(const engine::MixtureContext& context) {
  return std::make_unique<plugin::Guarded<Policy>>(context);
}

}  // namespace batchflow::policies
