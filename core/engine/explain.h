// Why the engine does what it does: a listener is called for each decision of a policy.
//
//   Engine engine(config, policies, catalogues, [](const Decision& decision) { print(decision); });
//
// The decisions of an engine step are reported in the order in which they are made, before its
// commands are returned. With a listener, policies are wrapped when they are made. Without one they
// are not, so that explaining costs nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/engine/policy_list.h"
#include "core/engine/share_part.h"

namespace batchflow::engine {

struct Decision {
  std::string_view kind;    // allocation, eviction, ...
  std::string_view policy;  // its name, and the parameters that are not at their defaults
  std::string what;         // `job 3: looks 7 blocks ahead`
  std::string numbers;      // what the policy was shown, and what it could choose from
};

using Explain = std::function<void(const Decision&)>;

// `allocation equal: node 1 dram: share 3 ... (of ... bytes)`
std::string text_of(const Decision& decision);

// Policies that report what they decide, and from which numbers: wrappers around the real ones.
// Without a listener, each of these answers `policy` itself.
std::unique_ptr<AllocationPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                            std::unique_ptr<AllocationPolicy> policy);
std::unique_ptr<SelectionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                           std::unique_ptr<SelectionPolicy> policy);
std::unique_ptr<DispatchPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<DispatchPolicy> policy);
std::unique_ptr<ScalingPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                         std::unique_ptr<ScalingPolicy> policy);
// The policy of a share, which knows its items by these numbers, or by their ids if there are none.
std::unique_ptr<EvictionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<EvictionPolicy> policy,
                                          const ShareSpec& spec,
                                          std::shared_ptr<const ItemNumbers> numbers);

}  // namespace batchflow::engine
