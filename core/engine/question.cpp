#include "core/engine/question.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace batchflow::engine {
namespace {

constexpr std::size_t kShownMost = 8;

double seconds_of(Instant at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

auto to(QuestionText& out) {
  return std::back_inserter(out);
}

// The number of entries, and a line for each of the first ones.
template <class T, class Write>
void write_list(QuestionText& out, std::string_view what, std::span<const T> all, Write write) {
  fmt::format_to(to(out), "{} {}", all.size(), what);
  for (const T& one : all.first(std::min(all.size(), kShownMost))) {
    fmt::format_to(to(out), "\n  ");
    write(one);
  }
}

}  // namespace

void write_question(QuestionText& out, const PlaceView& view) {
  fmt::format_to(to(out), "{} bytes, {} workers, busy {:.2f}; ", view.capacity_bytes, view.workers,
                 view.busy);
  write_list(out, "shares", view.shares, [&](const ShareView& one) {
    fmt::format_to(to(out), "share {}: {} slots of {} bytes, {} used, at least {}, all {}",
                   one.share.value, one.slots_now, one.slot_bytes, one.slots_used, one.slots_least,
                   one.slots_all);
  });
}

void write_question(QuestionText& out, const SelectionView& view) {
  fmt::format_to(to(out), "job {} at {:.6f} s; ", view.job.value, seconds_of(view.now));
  write_list(out, "candidates", view.candidates, [&](const SelectionCandidate& one) {
    fmt::format_to(to(out), "distance {}{}, needed by {}", one.distance, one.ready ? ", ready" : "",
                   one.needed_by);
  });
}

void write_question(QuestionText& out, const SamplesView& view) {
  fmt::format_to(to(out), "job {}, epoch {}, {} samples left; ", view.job.value, view.epoch,
                 view.left);
  write_list(out, "candidates", view.candidates, [&](const SampleCandidate& one) {
    fmt::format_to(to(out), "sample {}, passed over {} times{}{}", one.sample.value,
                   one.passed_over, one.decoded ? ", decoded" : "", one.encoded ? ", encoded" : "");
  });
}

void write_question(QuestionText& out, const DispatchView& view) {
  fmt::format_to(to(out), "at {:.6f} s; ", seconds_of(view.now));
  write_list(out, "candidates", view.candidates, [&](const WorkCandidate& one) {
    fmt::format_to(to(out), "job {}: distance {}, {} ranks wait, asked as number {}", one.job.value,
                   one.distance, one.waiting, one.asked);
  });
}

void write_question(QuestionText& out, const NodesView& view) {
  fmt::format_to(to(out), "a block for job {}; ", view.work.job.value);
  write_list(out, "nodes", view.candidates, [&](const NodeCandidate& one) {
    fmt::format_to(to(out),
                   "node {}: {} of its ranks, {} workers, {} blocks started, {} bytes to fetch",
                   one.node.value, one.ranks, one.workers, one.started, one.to_fetch);
  });
}

void write_question(QuestionText& out, const NodeView& view) {
  fmt::format_to(to(out), "node {}: {} of {} workers, {} busy", view.node.value, view.workers_now,
                 view.workers_most, view.busy);
}

void write_question(QuestionText& out, const JobView& view) {
  fmt::format_to(to(out), "job {}: window {}, step {:.6f} s", view.job.value, view.window,
                 view.step_s);
}

void write_question(QuestionText& out, ItemId item, Slots slots) {
  if (item.is_none()) {
    fmt::format_to(to(out), "nothing of one item");
  } else {
    fmt::format_to(to(out), "item {}, {} slots", item.value, slots);
  }
}

}  // namespace batchflow::engine
