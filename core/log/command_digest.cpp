#include "core/log/command_digest.h"

#include <bit>

#include "core/base/random.h"
#include "core/engine/event_fields.h"

namespace batchflow::log {

namespace {

// One multiplication a word, bijective in the word and in the value before; mixed at the end.
struct Folder {
  std::uint64_t value = kGolden;

  void word(std::uint64_t next) {
    value = (value ^ next) * 0x9fb21c651e98df25;
    value ^= value >> 32;
  }

  template <class T>
  void operator()(std::string_view /*name*/, const T& field) {
    if constexpr (is_id<T>) {
      word(field.value);
    } else if constexpr (is_list<T>) {
      word(field.size());
      for (const auto& entry : field) (*this)({}, entry);
    } else if constexpr (std::is_same_v<T, Instant>) {
      word(static_cast<std::uint64_t>(field.time_since_epoch().count()));
    } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      word(static_cast<std::uint64_t>(field));
    } else {
      for_each_field(field, *this);
    }
  }
};

}  // namespace

std::uint64_t digest(const engine::Command& command) {
  Folder folder;
  folder.word(command.index());
  std::visit([&](const auto& fields) { folder({}, fields); }, command);
  return mix(folder.value);
}

void CommandDigest::add(std::span<const engine::Command> commands) {
  value_ = mix(value_ ^ (commands.size() + kGolden));
  for (const engine::Command& command : commands)
    value_ = mix((value_ + kGolden) ^ digest(command));
}

}  // namespace batchflow::log
