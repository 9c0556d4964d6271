// Policies that tell what they decide, and from which numbers: wrappers around the real ones, made
// when somebody listens (core/engine/explain.h).
#pragma once

#include <memory>

#include "core/engine/explain.h"
#include "core/engine/policy_list.h"

namespace batchflow::engine {

// Each answers `policy` itself when nobody listens.
std::unique_ptr<AllocationPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                            std::unique_ptr<AllocationPolicy> policy);
std::unique_ptr<SelectionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                           std::unique_ptr<SelectionPolicy> policy);
std::unique_ptr<DispatchPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<DispatchPolicy> policy);
std::unique_ptr<ScalingPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                         std::unique_ptr<ScalingPolicy> policy);
// Of a share of that place, form and dataset.
std::unique_ptr<EvictionPolicy> explained(const Explain& explain, const PolicyChoice& choice,
                                          std::unique_ptr<EvictionPolicy> policy, Place place,
                                          Form form, DatasetId dataset);

}  // namespace batchflow::engine
