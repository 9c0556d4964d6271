#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace batchflow {

void check_failed(const char* condition, const char* file, int line, const char* message) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition, *message ? ": " : "",
               message);
  std::abort();
}

}  // namespace batchflow
