// What the engine asks a policy at this moment. Code that finds that the policy does not come back,
// crashes or breaks its rules can then say what it was asked.
//
// Calls of policies do not nest: what was noted last is what is being asked. A view is noted for as
// long as the call lasts (Asking); for a share's policy, the item that it is asked about is copied.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "core/engine/policy.h"
#include "core/engine/policy_texts.h"

namespace batchflow::engine {

class Share;

struct Asked {
  using View =
      std::variant<std::monostate, const PlaceView*, const SelectionView*, const SamplesView*,
                   const DispatchView*, const NodesView*, const NodeView*, const JobView*>;
  View view;
  const Share* share = nullptr;  // its policy is asked, if there is no view
  ItemId item = ItemId::none();
  Slots slots = 0;

  void note(const Share& asked, const Access& access) {
    share = &asked;
    item = access.item;
    slots = access.slots;
  }
};

// The kinds of policies that are shown the views of Asked::View, in that order; none is shown the
// first.
inline constexpr PolicyKind kAskedKinds[std::variant_size_v<Asked::View>] = {
    PolicyKind{},         PolicyKind::allocation, PolicyKind::selection, PolicyKind::selection,
    PolicyKind::dispatch, PolicyKind::dispatch,   PolicyKind::scaling,   PolicyKind::scaling};

// Notes a view until the call is over.
class Asking {
 public:
  template <class View>
  Asking(Asked& asked, const View& view) : asked_(asked) {
    asked_.view = &view;
    asked_.share = nullptr;
  }
  Asking(const Asking&) = delete;
  ~Asking() { asked_.view = std::monostate(); }

 private:
  Asked& asked_;
};

// A text of usual length is written without allocating, as a signal handler may.
using QuestionText = fmt::basic_memory_buffer<char, 4096>;
void write_question(QuestionText& out, const PlaceView& view);
void write_question(QuestionText& out, const SelectionView& view);
void write_question(QuestionText& out, const SamplesView& view);
void write_question(QuestionText& out, const DispatchView& view);
void write_question(QuestionText& out, const NodesView& view);
void write_question(QuestionText& out, const NodeView& view);
void write_question(QuestionText& out, const JobView& view);
void write_question(QuestionText& out, ItemId item, Slots slots);

struct Question {
  PolicyScope scope;
  QuestionText text;
};

}  // namespace batchflow::engine
