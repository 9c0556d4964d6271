// Policies that report what they decide, and from which numbers: wrappers around the real ones,
// made when there is a listener (core/engine/explain.h).
#pragma once

#include <memory>

#include "core/engine/explain.h"
#include "core/engine/policy_list.h"

namespace batchflow::engine {

// Without a listener, each answers `policy` itself.
std::unique_ptr<AllocationPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                            std::unique_ptr<AllocationPolicy> policy);
std::unique_ptr<SelectionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                           std::unique_ptr<SelectionPolicy> policy);
std::unique_ptr<DispatchPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<DispatchPolicy> policy);
std::unique_ptr<ScalingPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                         std::unique_ptr<ScalingPolicy> policy);
// The policy of a share with that place, form and dataset.
std::unique_ptr<EvictionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<EvictionPolicy> policy, Place place,
                                          Form form, DatasetId dataset);

}  // namespace batchflow::engine
