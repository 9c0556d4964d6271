#include "traces/access_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/config_value.h"
#include "traces/generator.h"

namespace batchflow::traces {
namespace {

// Goes from the end: where an item was seen last is where it is used next.
std::vector<std::uint32_t> next_uses_of(const AccessTrace& trace) {
  std::vector<std::uint32_t> next(trace.requests());
  std::vector<std::uint32_t> seen(trace.distinct_items(), AccessTrace::kNoNext);
  for (std::size_t i = trace.requests(); i-- > 0;) {
    next[i] = seen[trace.items[i]];
    seen[trace.items[i]] = static_cast<std::uint32_t>(i);
  }
  return next;
}

}  // namespace

void AccessTraceBuilder::expect(std::size_t requests, double more_bytes) {
  constexpr double kBytesPerRequest = sizeof(std::uint32_t) * 2;
  constexpr double kGigabyte = 1e9;
  const double wanted = static_cast<double>(requests) * kBytesPerRequest + more_bytes;
  const double there =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (wanted > there) {
    throw ConfigError(
        fmt::format("{}: takes {:.0f} GB of memory, and this machine has {:.0f}; "
                    "make the trace smaller",
                    trace_.name, wanted / kGigabyte, there / kGigabyte));
  }
  trace_.items.reserve(requests);
}

bool AccessTraceBuilder::add(std::uint64_t id, std::uint32_t size) {
  if (size == 0) {
    ++trace_.requests_of_size_zero;
    return true;
  }
  if (trace_.items.size() == kMostRequests) return false;
  const std::uint32_t item = ids_.dense(id);
  if (item == trace_.item_sizes.size()) {
    trace_.item_sizes.push_back(size);
    trace_.working_set_bytes += size;
  } else if (trace_.sizes.empty() && size != trace_.item_sizes[item]) {
    trace_.sizes.reserve(trace_.items.capacity());
    for (std::uint32_t earlier : trace_.items) trace_.sizes.push_back(trace_.item_sizes[earlier]);
  }
  if (!trace_.sizes.empty()) trace_.sizes.push_back(size);
  trace_.items.push_back(item);
  trace_.bytes_requested += size;
  return true;
}

AccessTrace AccessTraceBuilder::finish() {
  ids_ = IdMap();
  trace_.next_uses = next_uses_of(trace_);
  const auto& sizes = trace_.item_sizes;
  const bool equal = trace_.sizes.empty() && !sizes.empty() &&
                     std::all_of(sizes.begin(), sizes.end(),
                                 [&](std::uint32_t size) { return size == sizes.front(); });
  if (equal) trace_.one_size = sizes.front();
  return std::move(trace_);
}

AccessTrace open_access_trace(const std::string& name, TraceFormat format,
                              const Progress& progress) {
  if (is_generator(name)) return generate_access_trace(name, progress);
  return read_access_trace(name, format, progress);
}

}  // namespace batchflow::traces
