#include "core/log/event_codec.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/base/names.h"
#include "core/base/random.h"
#include "core/engine/event_fields.h"
#include "core/log/field_codec.h"
#include "core/order/position_json.h"

namespace batchflow::log {

namespace {

template <class Variant>
using Take = Variant (*)(FieldReader&);

template <class Variant, std::size_t index>
Variant take_one(FieldReader& reader) {
  std::variant_alternative_t<index, Variant> one{};
  reader.take(one);
  return one;
}

// One function for each alternative, by its index.
template <class Variant, std::size_t... index>
constexpr std::array<Take<Variant>, sizeof...(index)> take_functions(
    std::index_sequence<index...>) {
  return {take_one<Variant, index>...};
}
template <class Variant>
constexpr auto kTake =
    take_functions<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());

template <class Variant>
void put_all(std::span<const Variant> all, FieldWriter& writer) {
  for (const Variant& one : all) {
    writer.count(one.index());
    std::visit([&](const auto& fields) { writer.put(fields); }, one);
  }
}

template <class Variant>
void take_all(FieldReader& reader, std::vector<Variant>& out) {
  while (reader.ok() && !reader.at_end())
    out.push_back(kTake<Variant>[reader.count(kTake<Variant>.size() - 1)](reader));
}

// Unsigned, so that a difference of any two times does not overflow.
std::uint64_t count_of(Instant instant) {
  return static_cast<std::uint64_t>(instant.time_since_epoch().count());
}

}  // namespace

void EventEncoder::step(Instant now, std::span<const engine::Event> events,
                        std::vector<std::byte>& out) {
  FieldWriter writer(out);
  writer.put(Duration(static_cast<std::int64_t>(count_of(now) - count_of(last_))));
  last_ = now;
  put_all(events, writer);
}

std::optional<EventDecoder::EngineStep> EventDecoder::step(std::span<const std::byte> bytes) {
  arena_.clear();
  positions_.clear();
  events_.clear();
  FieldReader reader(bytes, arena_, positions_);
  Duration since_last{};
  reader.take(since_last);
  take_all(reader, events_);
  if (!reader.ok()) return std::nullopt;
  const auto now = count_of(last_) + static_cast<std::uint64_t>(since_last.count());
  last_ = Instant(Duration(static_cast<std::int64_t>(now)));
  return EngineStep{last_, events_};
}

void encode(std::span<const engine::Command> commands, std::vector<std::byte>& out) {
  FieldWriter writer(out);
  put_all(commands, writer);
}

std::optional<std::span<const engine::Command>> CommandDecoder::commands(
    std::span<const std::byte> bytes) {
  arena_.clear();
  positions_.clear();
  commands_.clear();
  FieldReader reader(bytes, arena_, positions_);
  take_all(reader, commands_);
  if (!reader.ok()) return std::nullopt;
  return commands_;
}

namespace {

using batchflow::name_of;  // of orders, forms and tiers
constexpr std::string_view name_of(engine::Outcome outcome) {
  constexpr std::string_view names[] = {"done", "failed", "corrupt"};
  return name_in<engine::Outcome::corrupt>(names, outcome);
}
constexpr std::string_view name_of(engine::Keep keep) {
  constexpr std::string_view names[] = {"as_needed", "always", "dropped"};
  return name_in<engine::Keep::dropped>(names, keep);
}

constexpr std::size_t kEntriesShown = 8;

std::string in_seconds(Duration duration) {
  const auto nanoseconds = duration.count();
  return fmt::format("{}{}.{:09}s", nanoseconds < 0 ? "-" : "",
                     std::abs(nanoseconds / 1'000'000'000), std::abs(nanoseconds % 1'000'000'000));
}

struct Printer {
  std::string text;

  template <class T>
  void operator()(std::string_view name, const T& field) {
    if (!text.empty() && text.back() != '{') text += ' ';
    text += name;
    text += '=';
    value(field);
  }

  template <class T>
  void value(const T& field) {
    if constexpr (is_id<T>) {
      text += field.is_none() ? "none" : fmt::to_string(field.value);
    } else if constexpr (is_list<T>) {
      list(field);
    } else if constexpr (std::is_same_v<T, bool>) {
      text += field ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
      text += name_of(field);
    } else if constexpr (std::is_arithmetic_v<T>) {
      text += fmt::to_string(field);
    } else if constexpr (std::is_same_v<T, Duration>) {
      text += in_seconds(field);
    } else if constexpr (std::is_same_v<T, Instant>) {
      text += field == kNever ? "never" : in_seconds(field.time_since_epoch());
    } else if constexpr (std::is_same_v<T, std::string_view>) {
      text += fmt::format("'{}'", field);
    } else if constexpr (std::is_same_v<T, const order::Position*>) {
      text += field ? order::to_json(*field) : "beginning";
    } else {
      text += '{';
      for_each_field(field, *this);
      text += '}';
    }
  }

  template <class T>
  void list(std::span<const T> entries) {
    text += '[';
    for (std::size_t i = 0; i < entries.size() && i < kEntriesShown; ++i) {
      if (i > 0) text += ' ';
      value(entries[i]);
    }
    if (entries.size() > kEntriesShown) text += fmt::format(" ... {} in all", entries.size());
    text += ']';
  }
};

template <class Variant>
std::string described(const Variant& variant) {
  return std::visit(
      [](const auto& fields) {
        using T = std::decay_t<decltype(fields)>;
        Printer printer{std::string(type_name<T>())};
        for_each_field(fields, printer);
        return printer.text;
      },
      variant);
}

}  // namespace

std::string describe(const engine::Event& event) {
  return described(event);
}
std::string describe(const engine::Command& command) {
  return described(command);
}

namespace {

// One multiplication a word, bijective in the word and in the value before; mixed at the end.
struct Folder {
  std::uint64_t value = kGolden;

  void word(std::uint64_t next) {
    value = (value ^ next) * 0x9fb21c651e98df25;
    value ^= value >> 32;
  }

  // Commands that say nothing of bundles and runs have the digests that they had before there were
  // any.
  static bool is_of_bundles(std::string_view name) {
    return name == "bundle_shift" || name == "kept_from" || name == "kept_to" ||
           name == "run_shift";
  }

  template <class T>
  void operator()(std::string_view name, const T& field) {
    if constexpr (std::is_integral_v<T>) {
      if (field == 0 && is_of_bundles(name)) return;
    }
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
