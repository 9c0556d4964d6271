// The policies and presets of a plugin that runs in another process, as the list of policies has
// them: what that process says of them, and proxies that ask it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/policy_list.h"
#include "core/engine/preset.h"
#include "policies/apart/calls.h"

namespace batchflow::apart {

// It lives as long as anything may name its policies and presets.
class Described {
 public:
  // `description`: as `describe` wrote it. `answering` answers for all policies, and outlives this.
  // `from` names the plugin; empty: the description names it. Throws ConfigError if that is no
  // description.
  Described(std::span<const std::byte> description, Answering& answering, std::string from = {});
  Described(const Described&) = delete;
  ~Described();

  std::vector<const engine::PolicyEntry*> policies() const;
  std::vector<const engine::Preset*> presets() const;

 private:
  struct Policy;
  struct Named;
  std::vector<std::unique_ptr<Policy>> policies_;
  std::vector<std::unique_ptr<Named>> presets_;
};

std::vector<std::byte> describe(std::span<const engine::PolicyEntry* const> policies,
                                std::span<const engine::Preset* const> presets);

}  // namespace batchflow::apart
