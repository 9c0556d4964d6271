#include "policies/apart/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "policies/apart/calls.h"
#include "policies/apart/message.h"

namespace batchflow::apart {
namespace {

constexpr std::size_t kShownMost = 8;

double seconds(Instant at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

std::string_view name_of(CallKind kind) {
  constexpr std::pair<CallKind, std::string_view> kNames[] = {
      {CallKind::make, "make"},
      {CallKind::save, "save"},
      {CallKind::allocate, "allocate"},
      {CallKind::choose, "choose"},
      {CallKind::choose_samples, "choose_samples"},
      {CallKind::weigh, "weigh"},
      {CallKind::next, "next"},
      {CallKind::choose_node, "choose_node"},
      {CallKind::workers, "workers"},
      {CallKind::depth, "depth"},
      {CallKind::play, "missed, and what follows"},
      {CallKind::victim, "victim"},
      {CallKind::read_early, "read_early"}};
  for (const auto& [one, name] : kNames) {
    if (one == kind) return name;
  }
  return "a question";
}

// Up to so many of a list, the rest of which may be cut off.
template <class T, class Show>
std::string shown(MessageReader& in, std::string_view what, Show show) {
  const auto count = in.get<std::uint64_t>();
  std::string text = fmt::format("{} {}", count, what);
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(count, kShownMost); ++i) {
    const T one = in.get<T>();
    if (!in.ok()) break;
    text += "\n  " + show(one);
  }
  return text;
}

std::string numbers_of(CallKind kind, MessageReader& in) {
  switch (kind) {
    case CallKind::allocate: {
      const auto place = in.get<engine::PlaceView>();
      return fmt::format(
          "{} bytes, {} workers, busy {:.2f}; {}", place.capacity_bytes, place.workers, place.busy,
          shown<engine::ShareView>(in, "shares", [](const engine::ShareView& one) {
            return fmt::format("share {}: {} slots of {} bytes, {} used, at least {}, all {}",
                               one.share.value, one.slots_now, one.slot_bytes, one.slots_used,
                               one.slots_least, one.slots_all);
          }));
    }
    case CallKind::choose: {
      const auto view = in.get<engine::SelectionView>();
      return fmt::format("job {} at {:.6f} s; {}", view.job.value, seconds(view.now),
                         shown<engine::SelectionCandidate>(
                             in, "candidates", [](const engine::SelectionCandidate& one) {
                               return fmt::format("distance {}{}, needed by {}", one.distance,
                                                  one.ready ? ", ready" : "", one.needed_by);
                             }));
    }
    case CallKind::choose_samples: {
      const auto view = in.get<engine::SamplesView>();
      return fmt::format(
          "job {}, epoch {}, {} samples left; {}", view.job.value, view.epoch, view.left,
          shown<engine::SampleCandidate>(in, "candidates", [](const engine::SampleCandidate& one) {
            return fmt::format("sample {}, passed over {} times{}{}", one.sample.value,
                               one.passed_over, one.decoded ? ", decoded" : "",
                               one.encoded ? ", encoded" : "");
          }));
    }
    case CallKind::next: {
      const auto now = in.get<Instant>();
      return fmt::format(
          "at {:.6f} s; {}", seconds(now),
          shown<engine::WorkCandidate>(in, "candidates", [](const engine::WorkCandidate& one) {
            return fmt::format("job {}: distance {}, {} ranks wait, asked as number {}",
                               one.job.value, one.distance, one.waiting, one.asked);
          }));
    }
    case CallKind::workers: {
      const auto view = in.get<engine::NodeView>();
      return fmt::format("node {}: {} of {} workers, {} busy", view.node.value, view.workers_now,
                         view.workers_most, view.busy);
    }
    case CallKind::depth: {
      const auto view = in.get<engine::JobView>();
      return fmt::format("job {}: window {}, step {:.6f} s", view.job.value, view.window,
                         view.step_s);
    }
    case CallKind::play:
      return shown<engine::Access>(in, "requests", [](const engine::Access& one) {
        return fmt::format("item {}, {} slots", one.item.value, one.slots);
      });
    case CallKind::victim:
    case CallKind::read_early: {
      const auto access = in.get<engine::Access>();
      return fmt::format("item {}, {} slots", access.item.value, access.slots);
    }
    default:
      return "";
  }
}

}  // namespace

std::string question_text(std::span<const std::byte> call) {
  MessageReader in(call);
  const auto header = in.get<CallHeader>();
  if (!in.ok()) return "nothing";
  const std::string numbers = numbers_of(header.kind, in);
  return fmt::format("{}{}{}", name_of(header.kind), numbers.empty() ? "" : ": ", numbers);
}

}  // namespace batchflow::apart
