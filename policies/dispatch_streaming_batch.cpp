// Streaming batch: the job with the least output that waits to be used comes first.
//
// "The Streaming Batch Model for Efficient and Fault-Tolerant Heterogeneous Execution" (Ray Data),
// 2025: one partition runs at a time on any worker, and the next is of the operator with the least
// buffered output, in bytes, as long as memory allows. Partitions are blocks here, memory is that
// of the stream's window, and a lost block is made again from its name.
#include "core/engine/policy_list.h"
#include "policies/dispatch_choose.h"
#include "policies/make.h"

namespace batchflow::policies {
namespace {

class StreamingBatch final : public engine::DispatchPolicy {
 public:
  explicit StreamingBatch(const engine::PolicyContext&) {}

  std::size_t next(const engine::DispatchView& view) override {
    return first_candidate(view.candidates,
                           [](const engine::WorkCandidate& a, const engine::WorkCandidate& b) {
                             return buffered(a) < buffered(b);
                           });
  }

 private:
  static double buffered(const engine::WorkCandidate& candidate) {
    return static_cast<double>(candidate.distance) * static_cast<double>(candidate.block_bytes);
  }
};

}  // namespace

extern const engine::PolicyEntry dispatch_streaming_batch;
constexpr engine::PolicyEntry dispatch_streaming_batch{
    "streaming-batch",
    "The job with the fewest bytes that wait for it comes first.\n"
    "A block at a time, as memory allows (Ray Data's streaming batch model).\n"
    "Departs from it: blocks are its partitions, and reads and steps are one\n"
    "operator.",
    &make_policy<engine::DispatchPolicy, StreamingBatch>};

}  // namespace batchflow::policies
