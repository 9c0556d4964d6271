#include "core/describe.h"

#include "core/describe_fields.h"

namespace batchflow {

std::string describe(const Event& event) {
  return described(event);
}
std::string describe(const Command& command) {
  return described(command);
}

}  // namespace batchflow
