#include "policies/apart/question.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/engine/question.h"
#include "policies/apart/calls.h"
#include "policies/apart/message.h"

namespace batchflow::apart {
namespace {

constexpr std::size_t kRequestsShown = 8;

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
      {CallKind::read_early, "read_early"},
      {CallKind::choose_exemplar, "choose"},
      {CallKind::weight_of_exemplar, "weight"},
      {CallKind::weigh_sources, "weigh"}};
  for (const auto& [one, name] : kNames) {
    if (one == kind) return name;
  }
  return "a question";
}

// As many entries of a list as the message has, the rest of which may be cut off.
template <class T>
std::vector<T> list(MessageReader& in) {
  std::vector<T> all;
  for (auto left = in.get<std::uint64_t>(); left > 0; --left) {
    const T one = in.get<T>();
    if (!in.ok()) break;
    all.push_back(one);
  }
  return all;
}

void write_numbers(CallKind kind, MessageReader& in, engine::QuestionText& out) {
  switch (kind) {
    case CallKind::allocate: {
      auto view = in.get<engine::PlaceView>();
      const auto shares = list<engine::ShareView>(in);
      view.shares = shares;
      return engine::write_question(out, view);
    }
    case CallKind::choose: {
      auto view = in.get<engine::SelectionView>();
      const auto candidates = list<engine::SelectionCandidate>(in);
      view.candidates = candidates;
      return engine::write_question(out, view);
    }
    case CallKind::choose_samples: {
      auto view = in.get<engine::SamplesView>();
      const auto candidates = list<engine::SampleCandidate>(in);
      view.candidates = candidates;
      return engine::write_question(out, view);
    }
    case CallKind::next: {
      const auto now = in.get<Instant>();
      const auto candidates = list<engine::WorkCandidate>(in);
      return engine::write_question(out, engine::DispatchView{now, candidates});
    }
    case CallKind::workers:
      return engine::write_question(out, in.get<engine::NodeView>());
    case CallKind::depth:
      return engine::write_question(out, in.get<engine::JobView>());
    case CallKind::play: {
      const auto requests = list<engine::Access>(in);
      fmt::format_to(std::back_inserter(out), "{} requests", requests.size());
      for (std::size_t i = 0; i < std::min(requests.size(), kRequestsShown); ++i) {
        fmt::format_to(std::back_inserter(out), "\n  ");
        engine::write_question(out, requests[i].item, requests[i].slots);
      }
      return;
    }
    case CallKind::victim:
    case CallKind::read_early: {
      const auto access = in.get<engine::Access>();
      return engine::write_question(out, access.item, access.slots);
    }
    default:
      return;
  }
}

}  // namespace

std::string question_text(std::span<const std::byte> call) {
  MessageReader in(call);
  const auto header = in.get<CallHeader>();
  if (!in.ok()) return "nothing";
  engine::QuestionText numbers;
  write_numbers(header.kind, in, numbers);
  return fmt::format("{}{}{}", name_of(header.kind), numbers.size() == 0 ? "" : ": ",
                     std::string_view(numbers.data(), numbers.size()));
}

}  // namespace batchflow::apart
