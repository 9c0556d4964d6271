// BF_CHECK: for errors of the programmer, always on, in every build.
//
// Failures of the world (a file that is missing, a peer that lies) are events, return values or a
// ConfigError. They never reach BF_CHECK.
#pragma once

namespace batchflow {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const char* message);

}  // namespace batchflow

#define BF_CHECK(condition)               \
  (static_cast<bool>(condition) ? void(0) \
                                : ::batchflow::check_failed(#condition, __FILE__, __LINE__, ""))
#define BF_CHECK_MSG(condition, message) \
  (static_cast<bool>(condition)          \
       ? void(0)                         \
       : ::batchflow::check_failed(#condition, __FILE__, __LINE__, message))
