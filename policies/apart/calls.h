// The messages between a proxy in the engine and the policy that decides for it in another process.
//
// A call is a CallHeader and what the kind of call needs. Some calls are answered, others are not.
// An answer begins with a Standing, where the kind has one. Both sides are of one build.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/engine/policy.h"

namespace batchflow::apart {

enum class CallKind : std::uint8_t {
  // Of policies of all kinds. All but `end` and `restore` are answered.
  make,
  end,
  save,
  restore,
  // Answered.
  allocate,
  choose,
  choose_samples,
  weigh,
  next,
  choose_node,
  workers,
  depth,
  play,  // of an eviction policy: requests that follow each other, answered with Plays
  victim,
  read_early,
  // Not answered.
  undo,  // the last of the plays that were answered last did not happen
  hit,
  inserted,
  removed,
  pinned,
  unpinned,
  resized,
  grow,
  forget,
  needed,
  scored,
  epoch_began,
  // Answered.
  choose_exemplar,
  weight_of_exemplar,
  weigh_sources,
  // Not answered.
  put_exemplar,
};

struct CallHeader {
  CallKind kind;
  std::uint8_t reserved[3] = {};
  std::uint32_t instance = 0;
};

// How a new policy is made. The texts of its parameters follow, in the order of their declaration.
struct MakeCall {
  std::uint32_t policy = 0;  // its index in the plugin
  std::uint32_t parameters = 0;
  std::uint64_t seed = 0;
  // Of an eviction policy: its share. Of a mixture policy, how many sources there are, and of a
  // rehearsal policy, for how many exemplars there is room.
  std::uint64_t items = 0;
  Slots capacity = 0;
  DatasetId dataset{};
  Form form = Form::encoded;
  Tier tier = Tier::dram;
};

// The answers of a policy to the questions that the engine asks all the time, as they are now.
struct Standing {
  std::int64_t ask_again = kNever.time_since_epoch().count();
  std::uint32_t blocks_to_choose_from = 0;
  std::uint8_t wants_measures = 0;
  std::uint8_t looks_behind_ready = 1;
  std::uint8_t chooses_nodes = 0;
  std::uint8_t weighs = 0;
  std::uint64_t every = 1;
};

// What becomes of one request. The items that follow are what `victim` answered, in order.
struct Play {
  ItemId item;
  std::uint32_t victims = 0;
  engine::Admission admission = engine::Admission::insert;
  // Flags, as another process writes them.
  std::uint8_t hit = 0;
  std::uint8_t inserted = 0;
  std::uint8_t brought_back = 0;  // the item was taken to be pinned, and is not from now on
};
// Plays beyond this size are left out of an answer.
inline constexpr std::size_t kPlayBytesMost = std::size_t{256} << 10;

// A block needs a slot while it is prepared, so a share of blocks admits all.
constexpr bool lets_all_in(Form form) {
  return form == Form::prepared;
}

struct UndoCall {
  std::uint32_t plays = 0;    // that happened as a whole
  std::uint32_t victims = 0;  // of the next one, how many answers were carried out
};

// Answers calls in place of policies: another process, or a journal.
class Answering {
 public:
  virtual ~Answering() = default;
  // A number for a new policy. Calls of other policies keep their meaning.
  virtual std::uint32_t new_instance() = 0;
  virtual void tell(std::span<const std::byte> call) = 0;
  // The answer is valid until the next call. None: this instance answers no more.
  // `recorded`: a decision depends on the answer, so a replay needs it.
  virtual std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call,
                                                        bool recorded) = 0;
  // An answer was against the rules.
  virtual void reject(std::string_view why) = 0;
};

}  // namespace batchflow::apart
