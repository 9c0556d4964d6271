// The policies of a plugin, in the process in which they decide: what proxies.h calls.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/engine/policy_list.h"

namespace batchflow::apart {

class Served {
 public:
  explicit Served(std::vector<const engine::PolicyEntry*> policies);
  Served(const Served&) = delete;
  ~Served();

  // Carries out a call of a proxy. Appends the answer to `answer`; none to what is told. False: it
  // is no such call.
  bool serve(std::span<const std::byte> call, std::vector<std::byte>& answer);

 private:
  struct Instance;
  class Eviction;

  std::unique_ptr<Instance> make(std::span<const std::byte> call) const;

  std::vector<const engine::PolicyEntry*> policies_;
  std::map<std::uint32_t, std::unique_ptr<Instance>> instances_;
};

}  // namespace batchflow::apart
