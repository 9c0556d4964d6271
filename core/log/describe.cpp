#include "core/log/describe.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "core/base/names.h"
#include "core/engine/event_fields.h"
#include "core/order/position.h"

namespace batchflow::log {

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
constexpr std::string_view name_of(engine::Refusal refusal) {
  constexpr std::string_view names[] = {"no_room",          "unknown_dataset", "unknown_pipeline",
                                        "bad_position",     "bad_request",     "rank_lost",
                                        "too_many_corrupt", "storage_failed",  "no_workers",
                                        "nothing_to_draw",  "wrong_order"};
  return name_in<engine::Refusal::wrong_order>(names, refusal);
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

}  // namespace batchflow::log
