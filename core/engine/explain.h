// Why the engine does what it does: a listener is called for each decision of a policy.
//
//   Engine engine(config, policies, catalogues, [](const Decision& one) { print(one); });
//
// The decisions of an engine step are reported in the order in which they are made, before its
// commands are returned. With a listener, policies are wrapped when they are made. Without one they
// are not, so that explaining costs nothing.
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
