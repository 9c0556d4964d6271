// Policies of a test's own beside all that are registered.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "core/engine/policy.h"
#include "core/engine/policy_list.h"
#include "policies/registry.h"
#include "tests/policies/keeps_nothing.h"

namespace batchflow::test {

template <class Interface, class Policy>
std::unique_ptr<Interface> make_canary(const engine::PolicyContext& context) {
  return std::make_unique<Policy>(context);
}
template <class Policy>
std::unique_ptr<engine::EvictionPolicy> make_eviction_canary(
    const engine::EvictionContext& context) {
  return std::make_unique<Policy>(context);
}

class Canaries {
 public:
  explicit Canaries(std::initializer_list<const engine::PolicyEntry*> more) {
    for (const engine::PolicyEntry* entry : policies::policy_list().entries())
      entries_.push_back(entry);
    entries_.insert(entries_.end(), more);
  }
  void add(std::span<const engine::PolicyEntry> more) {
    for (const engine::PolicyEntry& entry : more) entries_.push_back(&entry);
  }
  engine::PolicyList list() const { return engine::PolicyList(entries_); }

 private:
  std::vector<const engine::PolicyEntry*> entries_;
};

}  // namespace batchflow::test
