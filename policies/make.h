// The factory that an entry of the policy list points to.
#pragma once

#include <memory>

#include "core/engine/policy.h"

namespace batchflow::policies {

template <class Interface, class Policy>
std::unique_ptr<Interface> make_policy(const engine::PolicyContext& context) {
  return std::make_unique<Policy>(context);
}

}  // namespace batchflow::policies
