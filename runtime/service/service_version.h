// What a service says that it is, to jobs, to other nodes and to people. It stands in a file of its
// own, for which tests link another one: so they have nodes of other versions
// (tests/runtime/service/other_version.cpp).
#pragma once

#include <cstdint>
#include <string_view>

namespace batchflow::service {

extern const std::string_view kServiceVersion;  // 0.2.0
// Nodes with the same number work together, as in an upgrade of one after the other.
extern const std::uint32_t kNodeProtocol;

}  // namespace batchflow::service
