// The one exception of BatchFlow: a configuration, trace or command line that cannot be right.
//
// It is thrown while loading, caught in main, and printed as it is: `file:line: what is wrong; what
// to write`.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace batchflow {

class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The known name that is most like `given`, for "did you mean"; empty when none is near.
std::string nearest_name(std::string_view given, const std::vector<std::string_view>& known);

}  // namespace batchflow
