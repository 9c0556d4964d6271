// The traces on which independent measurements of eviction policies were made, made anew from their
// definition, and checked against their digest.
#pragma once

#include <string>

#include "traces/access_trace.h"

namespace batchflow::test {

// a_perm, b_jobs4, c_imp, d_zipf, d_zipf1 or e_tiny.
traces::AccessTrace measured_trace(const std::string& name);

}  // namespace batchflow::test
