// Why the engine does what it does: told of each decision a policy makes, if anybody asks.
//
//   Engine engine(config, policies, catalogues, [](const Decision& one) { print(one); });
//
// Decisions of one step are told in the order in which they are made, before its commands are
// returned. Policies are wrapped for it when they are made; without a listener nothing is, and
// explaining costs nothing.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace batchflow::engine {

struct Decision {
  std::string_view kind;    // allocation, eviction, ...
  std::string_view policy;  // its name, and the parameters that are not at their defaults
  std::string what;         // `job 3: block 7 places ahead`
  std::string numbers;      // what it was shown when it decided, and of which it chose
};

using Explain = std::function<void(const Decision&)>;

}  // namespace batchflow::engine
