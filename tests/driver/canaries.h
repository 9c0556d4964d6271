// Policies of a test's own beside all that are registered.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "core/policy.h"
#include "core/policy_list.h"
#include "policies/registry.h"

namespace batchflow::test {

template <class Interface, class Policy>
std::unique_ptr<Interface> make_canary(const PolicyContext& context) {
  return std::make_unique<Policy>(context);
}
template <class Policy>
std::unique_ptr<EvictionPolicy> make_eviction_canary(const EvictionContext& context) {
  return std::make_unique<Policy>(context);
}

class Canaries {
 public:
  explicit Canaries(std::initializer_list<const PolicyEntry*> more) {
    for (const PolicyEntry* entry : policy_list().entries()) entries_.push_back(entry);
    entries_.insert(entries_.end(), more);
  }
  void add(std::span<const PolicyEntry> more) {
    for (const PolicyEntry& entry : more) entries_.push_back(&entry);
  }
  PolicyList list() const { return PolicyList(entries_); }

 private:
  std::vector<const PolicyEntry*> entries_;
};

}  // namespace batchflow::test
